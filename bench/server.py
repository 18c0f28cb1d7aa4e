"""The server over TCP beside a plain server in C that checks, stamps and remembers nothing.

The load comes from another process (server_load.c, compiled here): a thread a connection, one request at a time, or one thread
for all of them, which has to be woken less often, as the runtimes of Iggy's clients do it. Two loads come from one of Iggy's own
clients instead (server_iggy.py), in an environment of its own. The servers run all the time; each load goes to them in turn,
several rounds, in another order each time, which also shares out what the machine does. Shown are the medians:
messages a second, a request's time, the server's processor time a request; and the ratio of the two servers' messages a second.
Arguments are the loads to run, by how their names begin; without any, all are run, and the results are written down. `--old DIR`
adds the server of another checkout with its own .venv, which takes turns with the others. Load and server share the machine:
where the load's own processor time is near a core's, it limits.
"""

from __future__ import annotations

import argparse
import itertools
import os
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402
from headstream.core.codec.binary import encode_sent  # noqa: E402
from headstream.core.model.message import Message  # noqa: E402
from headstream.core.model.partitioning import Partitioning  # noqa: E402
from headstream.core.wire.commands.messages import SendMessages  # noqa: E402
from headstream.core.wire.commands.streams import CreateStream  # noqa: E402
from headstream.core.wire.commands.topics import NEVER, SERVER_DEFAULT, Compression, CreateTopic  # noqa: E402
from tests.support.server.iggy_environments import make_environment  # noqa: E402
from tests.support.server.peers import TcpPeer  # noqa: E402
from tests.support.server.server_process import ServerProcess  # noqa: E402

SECONDS = 1.0
ROUNDS = 6  # each order of three servers once
IGGY_VERSION = "0.4.0"


class Load(NamedTuple):
    """What is asked for: which command, on how many connections, how many messages of how many bytes a request has, by whom.

    Without a number of threads, it is one a connection.
    """

    mode: str
    connections: int
    messages: int
    size_bytes: int
    is_iggy: bool = False
    threads: int = 0

    @property
    def batches(self) -> int:
        """How many sends are polled again and again: what is polled is in the system's memory, as new messages are."""
        return 50 if self.messages > 1 else 1000

    def __str__(self) -> str:
        what = f"{self.mode} {self.messages} x {self.size_bytes} B"
        how = ", one thread" * (self.threads == 1) + ", Iggy's client" * self.is_iggy
        return f"{what}, {self.connections} connection{'s' * (self.connections > 1)}{how}"


class Result(NamedTuple):
    """What came of it: messages a second, microseconds of a request (median, 99th percentile), processor time."""

    rate: float
    median_us: float
    late_us: float
    server_us: float
    load_cores: float


LOADS = [
    Load("send", 1, 1000, 1000),
    Load("send", 4, 1000, 1000),
    Load("poll", 1, 1000, 1000),
    Load("poll", 4, 1000, 1000),
    Load("send", 1, 1000, 100),
    Load("poll", 1, 1000, 100),
    Load("send", 1, 1, 100),
    Load("poll", 1, 1, 100),
    Load("send", 8, 1, 100),
    Load("poll", 8, 1, 100),
    Load("send", 8, 1, 100, threads=1),
    Load("poll", 8, 1, 100, threads=1),
    Load("ping", 1, 1, 1),
    Load("send", 1, 1000, 1000, is_iggy=True),
    Load("poll", 1, 1000, 1000, is_iggy=True),
]


class Target(NamedTuple):
    """A server: its process and its port."""

    process: int
    port: int

    def cpu_s(self) -> float:
        """Return the processor time it has used."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        """Return its resident memory."""
        return int(Path(f"/proc/{self.process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def compile_load(directory: Path) -> str:
    program = str(directory / "server_load")
    headers = f"-I{sysconfig.get_path('include')}", f"-I{ROOT / 'src' / 'headstream' / 'core' / 'codec'}"
    subprocess.run(["cc", "-O2", "-pthread", *headers, str(ROOT / "bench" / "server_load.c"), "-o", program], check=True)
    return program


def run(program: str, target: Target, load: Load, seconds: float = SECONDS) -> Result:
    """Put a load on a server."""
    before_s = target.cpu_s()
    command = [program]
    if load.is_iggy:
        client = ("0.9.0", "apache-iggy") if load.mode.endswith("-today") else (IGGY_VERSION, "iggy-py")
        command = [str(make_environment(*client)), str(ROOT / "bench" / "server_iggy.py")]
    words = [load.mode, target.port, load.connections, seconds, load.messages, load.size_bytes, load.batches]
    if not load.is_iggy:
        words.append(load.threads or max(2, load.connections))
    done = subprocess.run([*command, *map(str, words)], check=True, capture_output=True, text=True).stdout.split()
    requests, took_s, median_us, late_us, load_s = map(float, done)
    server_us = (target.cpu_s() - before_s) / requests * 1e6
    return Result(requests * load.messages / took_s, median_us, late_us, server_us, load_s / took_s)


@contextmanager
def anchored(program: str, directory: Path, size_bytes: int) -> Iterator[Target]:
    """Run the plain server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "anchor", str(port), str(directory), str(size_bytes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield Target(process.pid, port)
        finally:
            process.kill()


@contextmanager
def served(directory: Path, python: str = sys.executable, environ: dict[str, str] | None = None) -> Iterator[Target]:
    """Run our server, with a topic for each connection."""
    server = ServerProcess(directory, python=python, environ=environ)
    try:
        with TcpPeer(server.tcp) as peer:
            peer.login()
            peer.ask(CreateStream(0, "bench"))
            for number in range(8):
                peer.ask(CreateTopic("bench", 0, 1, Compression.NONE, NEVER, SERVER_DEFAULT, 0, f"t{number}"))
        yield Target(server.pid, server.tcp[1])
        server.stop()
    finally:
        server.kill()


def fill(target: Target, load: Load) -> None:
    """Store what is polled: the same sends in each topic."""
    with TcpPeer(("127.0.0.1", target.port)) as peer:
        peer.login()
        sent = encode_sent([Message(payload=b"x" * load.size_bytes)] * load.messages)
        for number in range(load.connections):
            for _ in range(load.batches):
                peer.ask(SendMessages("bench", f"t{number}", Partitioning.partition(1), sent))


def run_in_turn(program: str, targets: list[Target], load: Load, number: int) -> list[Result]:
    """Put a load on each server, in another order each round, and return the results in the order of the servers.

    The page cache makes the order matter: one server's unwritten pages slow down the next one, and pages that one has freed are
    cheaper than new ones. With one order for all rounds the same server was half as fast in the first place as in the last.
    """
    results = {}
    orders = list(itertools.permutations(range(len(targets))))
    for chosen in orders[number % len(orders)]:
        if load.mode == "send":
            os.sync()
        results[chosen] = run(program, targets[chosen], load)
    return [results[each] for each in range(len(targets))]


def compare(report: Report, program: str, load: Load, old: Path | None) -> float:
    """Measure one load on all servers, alternating; return our resident memory after it."""
    with ExitStack() as ends:
        place = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        ours = ends.enter_context(served(place / "log"))
        targets = [ours, ends.enter_context(anchored(program, place, load.size_bytes))]
        if old is not None:
            targets.append(ends.enter_context(served(place / "old", str(old / ".venv/bin/python"))))
        if load.mode == "poll":
            for target in targets[::2]:
                fill(target, load)
        found = [run_in_turn(program, targets, load, number) for number in range(ROUNDS)]
        resident = ours.resident_mb()
    mine, anchor, *olds = (
        Result(*(statistics.median(column) for column in zip(*each, strict=True))) for each in zip(*found, strict=True)
    )
    beside = "".join(f" | {other.rate:12,.0f} {other.server_us:9.1f} {mine.rate / other.rate:9.2f}" for other in olds)
    report.line(
        f"{load!s:43} {mine.rate:12,.0f} {mine.median_us:8.0f} {mine.late_us:8.0f} {mine.server_us:9.1f} {mine.load_cores:6.2f}"
        f" | {anchor.rate:12,.0f} {anchor.median_us:8.0f} {anchor.late_us:8.0f} {anchor.server_us:9.1f}"
        f" | {mine.rate / anchor.rate:5.2f}{beside}"
    )
    return resident


def parse_options(description: str | None) -> argparse.Namespace:
    """Return the options `loads` and `old` of a benchmark of servers."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("loads", nargs="*", help="how the names of the loads begin")
    parser.add_argument("--old", type=Path, help="a checkout of another version, with its own .venv")
    return parser.parse_args()


def main() -> None:
    options = parse_options(__doc__)
    asked = tuple(options.loads)
    with Report("server", write=not asked) as report, tempfile.TemporaryDirectory() as place:
        program = compile_load(Path(place))
        loads = [load for load in LOADS if not asked or str(load).startswith(asked)]
        try:
            make_environment(IGGY_VERSION)
        except OSError as error:
            report.line(f"without iggy-py {IGGY_VERSION}, which cannot be installed here: {str(error)[-300:]}")
            loads = [load for load in loads if not load.is_iggy]
        report.line(f"{ROUNDS} rounds of {SECONDS:g} s, in every order; medians. messages/s counts messages, not requests.")
        if any(load.is_iggy for load in loads):
            report.line(f"With iggy-py {IGGY_VERSION}, a part of the time is the work of the client library.")
        report.line(
            f"{'':43} {'messages/s':>12} {'us':>8} {'p99 us':>8} {'cpu us/rq':>9} {'load':>6}"
            f" | {'plain C/s':>12} {'us':>8} {'p99 us':>8} {'cpu us/rq':>9} | {'ratio':>5}"
            + (f" | {'old/s':>12} {'cpu us/rq':>9} {'ratio':>9}" if options.old else "")
        )
        resident = [compare(report, program, load, options.old) for load in loads]
        report.line(f"resident memory after each load: {min(resident):.0f} to {max(resident):.0f} MB")


if __name__ == "__main__":
    main()
