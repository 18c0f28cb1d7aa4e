"""What a message costs the server as connections and topics grow: flat, or not.

A server in a process of its own; processor time is the server's (user and system), so that what the load's own process
costs does not count. Sends and polls are of 1 message of 100 bytes, each in a request of its own.

idle      so many connections are open, one of them works
active    all of them work: a request goes out on each, then all answers are read, and so on
topics    one connection, requests go to so many topics in turn (1 partition each)
files     no server: the two writes of a send (its message, its entry in the index), to the files of so many topics in turn.
          What they cost more with many files is the file system's and the processor's caches'
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402
from headstream.core.codec.binary import encode_sent  # noqa: E402
from headstream.core.model.message import Message  # noqa: E402
from headstream.core.model.partitioning import Partitioning  # noqa: E402
from headstream.core.model.polling import ConsumerKind, PollingKind  # noqa: E402
from headstream.core.wire.commands.messages import PollMessages, SendMessages  # noqa: E402
from headstream.core.wire.commands.offsets import ConsumerRef  # noqa: E402
from headstream.core.wire.commands.streams import CreateStream  # noqa: E402
from headstream.core.wire.commands.topics import NEVER, Compression, CreateTopic  # noqa: E402
from headstream.core.wire.frames import encode_request  # noqa: E402
from tests.support.server.peers import TcpPeer  # noqa: E402
from tests.support.server.server_process import ServerProcess  # noqa: E402

COUNTS = (1, 10, 100, 1000)
REQUESTS = 10_000
RUNS = 3
DATA = encode_sent([Message(payload=b"x" * 100)])
STREAM = 1


class Cost(NamedTuple):
    """What one request costs."""

    server_us: float
    p50_us: float
    p99_us: float


def send_frame(topic: int) -> bytes:
    command = SendMessages(STREAM, topic, Partitioning.partition(1), DATA)
    return encode_request(command.code, command.encode())


def poll_frame(topic: int) -> bytes:
    consumer = ConsumerRef(ConsumerKind.CONSUMER, 1)
    command = PollMessages(consumer, STREAM, topic, 1, PollingKind.OFFSET, 0, 1, False)
    return encode_request(command.code, command.encode())


def measure(server: ServerProcess, peers: Sequence[TcpPeer], frames: Sequence[bytes]) -> Cost:
    """Return the cost of a request: on each peer in turn, each with the next frame; answers are read once all are out."""
    process = psutil.Process(server.pid)
    rounds, at, times_us = max(REQUESTS // len(peers), 1), 0, list[float]()
    before = process.cpu_times()
    for _ in range(rounds):
        began = time.perf_counter()
        for peer in peers:
            peer.socket.sendall(frames[at % len(frames)])
            at += 1
        for peer in peers:
            status, _ = peer.receive()
            if status:
                raise RuntimeError(f"status {status}")
        times_us.append((time.perf_counter() - began) / len(peers) * 1e6)
    after = process.cpu_times()
    server_us = (after.user + after.system - before.user - before.system) / (rounds * len(peers)) * 1e6
    times_us.sort()
    return Cost(server_us, statistics.median(times_us), times_us[len(times_us) * 99 // 100])


def best(run: Callable[[], Cost]) -> Cost:
    """Return the cheapest of several runs: what else the machine does can only add."""
    return min((run() for _ in range(RUNS)), key=lambda cost: cost.server_us)


def log_in(server: ServerProcess) -> TcpPeer:
    peer = TcpPeer(server.tcp)
    peer.login()
    return peer


def row(report: Report, name: str, count: int, send: Cost, poll: Cost, server: ServerProcess) -> None:
    cells = "  ".join(f"{cost.server_us:7.1f} {cost.p50_us:7.1f} {cost.p99_us:8.1f}" for cost in (send, poll))
    report.line(f"{name:8} {count:5}   {cells}   {server.resident_bytes / 1e6:6.0f}")


def compare_connections(report: Report, server: ServerProcess) -> None:
    peers = [log_in(server)]
    for count in COUNTS:
        peers += [log_in(server) for _ in range(count - len(peers))]
        for name, working in (("idle", peers[:1]), ("active", peers)):
            if name == "idle" or count > 1:
                send, poll = (best(lambda: measure(server, working, [frame])) for frame in (send_frame(1), poll_frame(1)))  # noqa: B023
                row(report, name, count, send, poll, server)
    for peer in peers:
        peer.close()


def compare_topics(report: Report, server: ServerProcess) -> None:
    peer, made = log_in(server), 1
    for count in COUNTS:
        for topic in range(made + 1, count + 1):
            peer.ask(CreateTopic(STREAM, topic, 1, Compression.NONE, NEVER, NEVER, 1, f"topic-{topic}"))
        made = max(made, count)
        numbers = range(1, count + 1)
        measure(server, [peer], [send_frame(topic) for topic in numbers])  # each topic has a message, and is open
        send, poll = (
            best(lambda: measure(server, [peer], [make(topic) for topic in numbers]))  # noqa: B023
            for make in (send_frame, poll_frame)
        )
        row(report, "topics", count, send, poll, server)
    peer.close()


def compare_files(report: Report, directory: Path) -> None:
    for count in COUNTS:
        files = [os.open(directory / f"{number}", os.O_RDWR | os.O_CREAT) for number in range(2 * count)]
        places = [0] * len(files)

        def write() -> Cost:
            before = resource.getrusage(resource.RUSAGE_SELF)
            for request in range(REQUESTS):
                for at in (request % count * 2, request % count * 2 + 1):  # noqa: B023
                    places[at] += os.pwrite(files[at], DATA if at % 2 else bytes(32), places[at])  # noqa: B023
            after = resource.getrusage(resource.RUSAGE_SELF)
            spent_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            return Cost(spent_s / REQUESTS * 1e6, 0, 0)

        report.line(f"{'files':8} {count:5}   {best(write).server_us:7.1f}")
        for file in files:
            os.close(file)


def main() -> None:
    with (
        Report("server_scale") as report,
        tempfile.TemporaryDirectory() as directory,
        ServerProcess(Path(directory) / "log") as server,
    ):
        root = log_in(server)
        root.ask(CreateStream(STREAM, "bench"))
        root.ask(CreateTopic(STREAM, 1, 1, Compression.NONE, NEVER, NEVER, 1, "topic-1"))
        root.exchange(send_frame(1))
        report.line("1 x 100 B a request; us a request: processor time of the server, p50 and p99 as the load sees it; best of 3")
        report.line("            n   send: cpu     p50      p99  poll: cpu     p50      p99   memory MB")
        compare_connections(report, server)
        compare_topics(report, server)
        compare_files(report, Path(directory))


if __name__ == "__main__":
    main()
