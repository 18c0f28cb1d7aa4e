"""The frames of Iggy's protocol 0.11 beside the older ones, on the same server.

The load is that of server.py, or Iggy's own clients: `iggy-py` 0.4.0 beside `apache-iggy` 0.9.0.
Both kinds of frames take turns on one server; shown are the medians of their messages a second, a
request's time and the server's processor time, and the ratio of the rates. What is polled was sent in the older frames.
Arguments are the loads to run, by how their names begin; without any, all are run, and the results are written down.
`--old DIR` adds the older frames on the server of another checkout with its own .venv. Last comes the processor time of a server
with idle consumers that poll every 10 ms, with and without held polls.
"""

from __future__ import annotations

import os
import statistics
import struct
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402
from bench.server import SECONDS, Load, Result, compile_load, fill, parse_options, run, served  # noqa: E402
from headstream.core.wire.codes import Code  # noqa: E402
from tests.support.server.vsr_peer import VsrPeer  # noqa: E402

ROUNDS = 4
IDLE = 100
IDLE_SECONDS = 5
LOADS = [
    *(Load(mode, connections, 1000, size) for mode in ("send", "poll") for size in (1000, 100) for connections in (1, 4, 8)),
    *(Load(mode, connections, 1, 100) for mode in ("send", "poll") for connections in (1, 4, 8)),
    *(Load(mode, 1, messages, size, is_iggy=True) for mode in ("send", "poll") for messages, size in ((1000, 1000), (1, 100))),
    Load("ping", 1, 1, 1),
]


def compare(report: Report, program: str, load: Load, old: Path | None) -> None:
    """Measure one load in both kinds of frames, alternating."""
    today = load._replace(mode=f"{load.mode}-today")
    with ExitStack() as ends:
        place = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        target = ends.enter_context(served(place / "log"))
        turns = [(target, load), (target, today)]
        targets = [target]
        if old is not None:
            targets.append(ends.enter_context(served(place / "old", str(old / ".venv/bin/python"))))
            turns.append((targets[1], load))
        if load.mode == "poll":
            for each in targets:
                fill(each, load)
        found: list[list[Result]] = [[] for _ in turns]
        for number in range(ROUNDS):
            for at in range(len(turns)):
                chosen = (at + number) % len(turns)
                if load.mode == "send":
                    os.sync()  # pages that another turn has not written slow this one down
                found[chosen].append(run(program, *turns[chosen]))
    older, newer, *olds = (Result(*map(statistics.median, zip(*each, strict=True))) for each in found)
    beside = "".join(f" | {other.rate:12,.0f} {older.rate / other.rate:6.2f}" for other in olds)
    report.line(
        f"{load!s:32} {older.rate:12,.0f} {older.median_us:8.0f} {older.server_us:9.1f}"
        f" | {newer.rate:12,.0f} {newer.median_us:8.0f} {newer.server_us:9.1f} | {newer.rate / older.rate:6.2f}{beside}"
    )


def poll_in_a_loop(peer: VsrPeer, is_over: threading.Event) -> None:
    """Poll an empty partition every 10 ms, as clients of this protocol do."""
    names = b"".join(b"\x02" + bytes([len(name)]) + name for name in (b"bench", b"t0"))
    body = b"\x01\x01\x04\x01\x00\x00\x00" + names + b"\x01" + struct.pack("<IBQIB", 0, 5, 0, 10, 0)
    while not is_over.is_set():
        peer.read(Code.POLL_MESSAGES, body)
        time.sleep(0.01)


def measure_idle(report: Report, hold: str) -> None:
    """Measure the processor time of a server with idle consumers."""
    with (
        tempfile.TemporaryDirectory() as place,
        served(Path(place) / "log", environ={"HEADSTREAM_HOLD_EMPTY_POLLS": hold}) as target,
    ):
        is_over = threading.Event()
        peers = [VsrPeer(("127.0.0.1", target.port)) for _ in range(IDLE)]
        threads = [threading.Thread(target=poll_in_a_loop, args=(peer, is_over)) for peer in peers]
        for thread in threads:
            thread.start()
        time.sleep(1)
        before_s = target.cpu_s()
        time.sleep(IDLE_SECONDS)
        share = (target.cpu_s() - before_s) / IDLE_SECONDS
        is_over.set()
        for thread in threads:
            thread.join()
    report.line(f"{IDLE} idle consumers, headstream.hold_empty_polls = {hold}: {share:.0%} of a core")


def main() -> None:
    options = parse_options(__doc__)
    asked = tuple(options.loads)
    with Report("server_iggy_today", write=not asked) as report, tempfile.TemporaryDirectory() as place:
        program = compile_load(Path(place))
        report.line(f"{ROUNDS} rounds of {SECONDS:g} s, alternating; medians. messages/s counts messages, not requests.")
        head = f"{'messages/s':>12} {'us':>8} {'cpu us/rq':>9}"
        report.line(
            f"{'':32} {'older frames: ' + head[14:]} | {'0.11: ' + head[6:]} |  ratio"
            + " |        old/s  ratio" * bool(options.old)
        )
        for load in LOADS:
            if not asked or str(load).startswith(asked):
                compare(report, program, load, options.old)
        for hold in ("0 s", "250 ms"):
            if not asked or "idle".startswith(asked):
                measure_idle(report, hold)


if __name__ == "__main__":
    main()
