"""The embedded log beside plain writes and reads of the same bytes.

All that is compared runs in one process, in alternating rounds, into files that grow side by side: what a growing
file costs changes by the minute on a virtual machine, so only the ratio within a run says something. Shown are the
median microseconds of a call and how often the first row's time that is.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.topology import NewTopic

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import headstream as hs  # noqa: E402
from bench.machine import Report  # noqa: E402
from headstream.broker.broker import Broker  # noqa: E402
from headstream.core.codec.batch.stored.stamp import stamp  # noqa: E402
from headstream.core.model.identifiers import TopicName  # noqa: E402
from headstream.core.model.polling import OffsetOwner, PollingStrategy  # noqa: E402
from headstream.core.model.topology import Limits  # noqa: E402
from headstream.log.opening import open_directory, open_memory  # noqa: E402
from headstream.log.segments.follower import PartitionFollower  # noqa: E402
from headstream.log.system.linux import reserve  # noqa: E402
from tests.support.messages.batches import sent  # noqa: E402

TOPIC = TopicName("bench", "topic")
SEED = bytes(range(16))
NOW = 1_700_000_000_000_000
CHUNK = 4 << 20

Work = Callable[[], object]


class PlainFile:
    """A file that is written to its end.

    Args:
        path: Where it is.
        reserved_bytes: Room on the disk that it has from the beginning.
    """

    def __init__(self, path: Path, reserved_bytes: int = 0) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        if reserved_bytes:
            reserve(self._descriptor, 0, reserved_bytes)

    def write(self, data: bytes | bytearray) -> None:
        os.write(self._descriptor, data)

    def write_again(self, data: bytes | bytearray, size_bytes: int = 64 << 20) -> None:
        """Write to the end, but begin anew after so many bytes: over what the system holds in memory."""
        if os.lseek(self._descriptor, 0, os.SEEK_CUR) + len(data) > size_bytes:
            os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, data)

    def close(self) -> None:
        os.close(self._descriptor)


def compare(report: Report, title: str, works: dict[str, Work], rounds: int, calls: int = 1) -> None:
    """Run each work in turn, `calls` times a round, and report the median microseconds of a call."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 3):
        for name, work in works.items():
            begin = time.perf_counter()
            for _ in range(calls):
                work()
            if number >= 3:
                times[name].append((time.perf_counter() - begin) / calls * 1e6)
    medians = {name: statistics.median(values) for name, values in times.items()}
    base = next(iter(medians.values()))
    report.line("")
    report.line(title)
    for name, median in medians.items():
        report.line(f"  {name:<48}{median:>10.1f} us{median / base:>8.2f}x")


def report_appends(report: Report, folder: Path, count: int, size: int, rounds: int, calls: int) -> None:
    batch = b"".join(sent(os.urandom(size)) for _ in range(count))
    stored = bytes(stamp(batch, 0, NOW, SEED, False).data)
    root = folder / f"append-{count}"
    root.mkdir()
    plain, stamped = PlainFile(root / "plain"), PlainFile(root / "stamped")
    roomy, old = PlainFile(root / "roomy", len(stored) * (rounds + 3) * calls), PlainFile(root / "old")
    for _ in range((64 << 20) // len(stored)):
        old.write(stored)
    disk, memory = Broker(open_directory(str(root / "log"))), Broker(open_memory())
    for broker in (disk, memory):
        broker.topics.create(NewTopic(TOPIC, 1, Limits.IGGY))
    works: dict[str, Work] = {
        "os.write of the stored bytes": lambda: plain.write(stored),
        "the same, room reserved for the whole file": lambda: roomy.write(stored),
        "the same, over pages of an old file": lambda: old.write_again(stored),
        "stamp, os.write": lambda: stamped.write(stamp(batch, 0, NOW, SEED, False).data),
        "append to file://": lambda: disk.messages.send(TOPIC, 1, batch),
        "append to memory://": lambda: memory.messages.send(TOPIC, 1, batch),
        "stamp alone": lambda: stamp(batch, 0, NOW, SEED, False),
    }
    compare(report, f"append {count} x {size} bytes, growing files", works, rounds, calls)
    for resource in (plain, stamped, roomy, old, disk, memory):
        resource.close()


def plain_read(path: Path, buffers: Iterator[bytearray]) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    while got := os.readv(descriptor, [next(buffers)]):
        yield got
    os.close(descriptor)


def report_reads(report: Report, folder: Path, count: int, size: int, sends: int) -> None:
    batch = b"".join(sent(os.urandom(size)) for _ in range(count))
    log = open_directory(str(folder / f"read-{count}"))
    broker = Broker(log)
    broker.topics.create(NewTopic(TOPIC, 1, Limits.IGGY))
    for _ in range(sends):
        broker.messages.send(TOPIC, 1, batch)
    directory = Path(log.partition_directory(log.snapshot()[TOPIC.stream].topics[TOPIC.topic], 1))
    paths = sorted(directory.glob("*.log"))
    total, end = sum(path.stat().st_size for path in paths), sends * count
    follower, careless = PartitionFollower(directory), PartitionFollower(directory, verify=False)
    buffers = itertools.cycle((bytearray(CHUNK), bytearray(CHUNK)))

    def read() -> None:
        assert sum(got for path in paths for got in plain_read(path, buffers)) == total

    def follow() -> None:
        assert sum(len(chunk) for chunk in follower.read(0)) == total

    def follow_unchecked() -> None:
        assert sum(len(chunk) for chunk in careless.read(0)) == total

    def poll() -> None:
        seen = offset = 0
        while offset < end:
            polled = broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.offset(offset), 1000))
            seen, offset = seen + sum(map(len, polled.chunks)), polled.next_offset
        assert seen == total

    title = f"read {total / 1e6:.0f} MB of sends of {count} x {size} bytes, from the page cache"
    works: dict[str, Work] = {
        "readv of the files, 4 MiB, two buffers in turn": read,
        "follower, each send checked": follow,
        "follower, unchecked": follow_unchecked,
        "polls of 1000": poll,
    }
    compare(report, title, works, 15)
    follower.close()
    careless.close()
    broker.close()


def report_seeks(report: Report, folder: Path) -> None:
    log = open_directory(str(folder / "seek"))
    times = iter(range(NOW, NOW + 1_000_000))
    broker = Broker(log, clock_us=lambda: next(times))
    broker.topics.create(NewTopic(TOPIC, 1, Limits.IGGY))
    count = 200_000
    batch = b"".join(sent(bytes(100)) for _ in range(2))
    for _ in range(count):
        broker.messages.send(TOPIC, 1, batch)
    directory = log.partition_directory(log.snapshot()[TOPIC.stream].topics[TOPIC.topic], 1)
    follower, chance, group = PartitionFollower(directory), random.Random(1), OffsetOwner.group("bench")
    works: dict[str, Work] = {
        "a message by its offset": lambda: next(follower.read((at := chance.randrange(2 * count)), at + 1)),
        "an offset by its time": lambda: follower.offset_of(NOW + chance.randrange(count)),
        "a look for new messages": follower.refresh,
        "a poll that finds nothing": lambda: broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.offset(2 * count), 10)),
        "a commit of an offset": lambda: broker.offsets.commit(TOPIC, group, {1: 5}),
    }
    compare(report, f"finding the way among {count} sends", works, 30, 100)
    follower.close()
    broker.close()


def report_clients(report: Report, folder: Path) -> None:
    report.line("")
    report.line("a client's messages a second, one thread, payloads of 100 bytes (median of 5)")
    plain: dict[str, object] = {}
    keyed = {"key": b"customer-42", "headers": hs.Headers({"attempt": hs.uint8(3), "source": "web", "total": 12.5})}
    for title, extra in (("", plain), (", key and 3 headers", keyed)):
        sending, consuming, polling = [], [], []
        for number in range(5):
            with hs.connect((folder / f"client-{len(extra)}-{number}").as_uri()) as log:
                log.create_topic("bench/topic")
                count, payload = 20_000, bytes(range(100))
                begin = time.perf_counter()
                with log.producer("bench/topic") as producer:
                    for _ in range(count):
                        producer.send(payload, **extra)  # type: ignore[arg-type]
                sending.append(count / (time.perf_counter() - begin))
                begin = time.perf_counter()
                with log.consumer("bench/topic", group="g", timeout_ms=0) as consumer:
                    assert sum(1 for _ in consumer) == count
                consuming.append(count / (time.perf_counter() - begin))
                begin = time.perf_counter()
                with log.consumer("bench/topic") as consumer:
                    while consumer.poll(1000):
                        pass
                polling.append(count / (time.perf_counter() - begin))
        for name, rates in (
            ("sent" + title, sending),
            ("iterated, each committed" + title, consuming),
            ("polled" + title, polling),
        ):
            report.line(f"  {name:<48}{statistics.median(rates):>12,.0f}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Report("log", write="--dry" not in sys.argv) as report:
        folder = Path(name)
        report_appends(report, folder, count=1000, size=1024, rounds=150, calls=1)
        report_appends(report, folder, count=1, size=100, rounds=60, calls=200)
        report_reads(report, folder, count=1000, size=1024, sends=100)
        report_reads(report, folder, count=1, size=100, sends=50_000)
        report_seeks(report, folder)
        report_clients(report, folder)


if __name__ == "__main__":
    main()
