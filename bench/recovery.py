"""Opening a log after its writer has gone: what it costs, and that it does not grow with the log.

A partition is filled with real sends to 1 GB and then to 10 GB. Each time a new Log opens it and appends one send, which
is when recovery runs; cold is after the system was told to forget the newest segment's pages. Everything was written
within the last minute, so the whole newest segment is suspect: as much as an opening after a crash reads of a log whose
newest segment has its index. (A segment without its index is read whole, at each opening until it has one again.)
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from headstream.core.model.topology import NewTopic

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402
from headstream.broker.broker import Broker  # noqa: E402
from headstream.core.model.identifiers import TopicName  # noqa: E402
from headstream.core.model.topology import Limits  # noqa: E402
from headstream.log.checks.verification import Verification  # noqa: E402
from headstream.log.opening import open_directory  # noqa: E402
from headstream.log.system.files import OsFiles  # noqa: E402
from tests.support.messages.batches import sent  # noqa: E402

TOPIC = TopicName("bench", "topic")
NEXT = sent(b"the first send after the crash")


def fill(root: Path, batch: bytes, count: int) -> None:
    broker = Broker(open_directory(str(root)))
    if not (root / "streams").exists():
        broker.topics.create(NewTopic(TOPIC, 1, Limits.IGGY))
    for _ in range(count):
        broker.messages.send(TOPIC, 1, batch)
    broker.close()


def segment_files(root: Path, suffix: str) -> list[Path]:
    return sorted(root.glob(f"streams/*/*/1/*.{suffix}"))


def forget_newest(root: Path) -> None:
    for suffix in ("log", "index"):
        descriptor = os.open(segment_files(root, suffix)[-1], os.O_RDONLY)
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def tear(root: Path) -> None:
    with segment_files(root, "log")[-1].open("ab") as file:
        file.write(bytes(500_000))


def open_and_append(root: Path) -> float:
    begin = time.perf_counter()
    broker = Broker(open_directory(str(root)))
    broker.messages.send(TOPIC, 1, NEXT)
    taken = time.perf_counter() - begin
    broker.close()
    return taken


def measure(report: Report, title: str, root: Path, prepare: Callable[[Path], object], rounds: int = 5) -> None:
    times = []
    for _ in range(rounds):
        prepare(root)
        times.append(open_and_append(root))
    report.line(f"  {title:<60}{statistics.median(times) * 1e3:>10.1f} ms  (longest {max(times) * 1e3:.1f})")


def report_openings(report: Report, root: Path) -> None:
    total = sum(path.stat().st_size for path in segment_files(root, "log"))
    newest = segment_files(root, "log")[-1].stat().st_size
    report.line("")
    sends = segment_files(root, "index")[-1].stat().st_size // 32 - 1
    report.line(
        f"opening a log of {total / 1e9:.1f} GB, {len(segment_files(root, 'log'))} segments, "
        f"the newest of {newest / 1e6:.0f} MB with {sends} sends, and appending a send (median of 5)"
    )
    measure(report, "warm", root, lambda _: None)
    measure(report, "cold", root, forget_newest)
    measure(report, "a torn tail, warm", root, tear)
    measure(report, "the newest index is missing, warm", root, lambda root: segment_files(root, "index")[-1].unlink())


def report_verification(report: Report, root: Path) -> None:
    checked: list[int] = []
    begin = time.perf_counter()
    assert not [finding for finding in Verification(str(root), OsFiles()).run(checked.append) if finding.is_damage]
    taken = time.perf_counter() - begin
    report.line(f"  {'headstream verify, whole':<60}{taken * 1e3:>10.0f} ms  ({sum(checked) / taken / 1e6:.0f} MB/s)")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Report("recovery", write="--dry" not in sys.argv) as report:
        big = b"".join(sent(os.urandom(1024)) for _ in range(1000))
        root = Path(name) / "big"
        fill(root, big, 1000)
        report_openings(report, root)
        report_verification(report, root)
        fill(root, big, 8780)
        report_openings(report, root)
        small = Path(name) / "small"
        fill(small, sent(bytes(100)), 300_000)
        report_openings(report, small)
        report_verification(report, small)


if __name__ == "__main__":
    main()
