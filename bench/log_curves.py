"""What the log costs as it grows: by its length, its partitions, its topics and its consumers.

The 10 GB log is sparse: indexes are whole, and so are the sends that are looked for; between them there is nothing. All
rounds of a table take turns in one process, and shown is the median of a call, so what matters is a row from left to right.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.topology import NewTopic

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402
from headstream.broker.broker import Broker  # noqa: E402
from headstream.core.codec.batch.stored.stamp import stamp  # noqa: E402
from headstream.core.model.identifiers import TopicName  # noqa: E402
from headstream.core.model.polling import OffsetOwner, PollingStrategy  # noqa: E402
from headstream.core.model.topology import Fsync, Limits  # noqa: E402
from headstream.log.opening import open_directory  # noqa: E402
from headstream.log.segments.follower import PartitionFollower  # noqa: E402
from headstream.log.segments.layout import IndexEntry, encode_entry, encode_header, segment_path  # noqa: E402
from tests.support.messages.batches import sent  # noqa: E402

TOPIC = TopicName("bench", "topic")
SEED = bytes(range(16))
NOW = 1_700_000_000_000_000
SMALL = sent(bytes(100))
SEGMENT_BYTES = 256 << 20
SHOWN_SENDS = 20
"""So many sends of a segment of the sparse log are there to be read."""

Work = Callable[[], object]


def measure(works: Mapping[object, Work], rounds: int, calls: int) -> list[float]:
    """Return the median microseconds of a call of each work; they take turns."""
    times: dict[object, list[float]] = {name: [] for name in works}
    for turn in range(rounds + 1):
        for name, work in works.items():
            begin = time.perf_counter()
            for _ in range(calls):
                work()
            if turn:
                times[name].append((time.perf_counter() - begin) / calls * 1e6)
    return [statistics.median(values) for values in times.values()]


def row(report: Report, title: str, values: list[float], unit: str) -> None:
    report.line(f"  {title:<52}" + "".join(f"{f'{value:,.1f} {unit}':>14}" for value in values))


def head(report: Report, title: str, columns: list[str]) -> None:
    report.line("")
    report.line(f"{title:<54}" + "".join(f"{column:>14}" for column in columns))


def memory_mb() -> float:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


# -- length -----------------------------------------------------------------------------------------------


def time_of(offset: int) -> int:
    """A message a second: all but the newest are older than what opening looks at."""
    return NOW + offset * 1_000_000


class LongLog:
    """A log of one partition of about so many bytes, of sends of `count` messages of `size` bytes."""

    def __init__(self, root: Path, size_bytes: int, count: int, size: int) -> None:
        self.broker = Broker(open_directory(str(root)))
        self.broker.topics.create(NewTopic(TOPIC, 1, Limits.IGGY))
        self.broker.close()
        self._batch = b"".join(sent(os.urandom(size)) for _ in range(count))
        self._count = count
        self.directory = str(next(root.glob("streams/*/*/1")))
        self.places: list[int] = []
        end = 0
        for _ in range(max(1, round(size_bytes / SEGMENT_BYTES))):
            end = self._write_segment(end)
        self.end_offset = end
        self.broker = Broker(open_directory(str(root)))
        self.broker.messages.send(TOPIC, 1, SMALL)
        self.follower = PartitionFollower(self.directory)

    def _write_segment(self, base: int) -> int:
        size = len(stamp(self._batch, 0, NOW, SEED, False).data)
        sends = SEGMENT_BYTES // size
        shown = set(range(0, sends, max(1, sends // SHOWN_SENDS))) | set(range(sends - 10, sends))  # opening checks the last
        entries = [encode_header(base)]
        with Path(segment_path(self.directory, base, ".log")).open("wb") as data:
            for number in range(sends):
                offset = base + number * self._count
                crc = 0
                if number in shown:
                    stamped = stamp(self._batch, offset, time_of(offset), SEED, False)
                    crc = stamped.crc32c
                    data.seek(number * size)
                    data.write(stamped.data)
                    self.places.append(offset)
                entries.append(encode_entry(IndexEntry(number * size, size, offset, self._count, time_of(offset), crc), base))
            data.truncate(sends * size)
        Path(segment_path(self.directory, base, ".index")).write_bytes(b"".join(entries))
        return base + sends * self._count

    def find_send(self, chance: random.Random) -> Work:
        return lambda: self.follower.position_of(chance.choice(self.places))

    def find_inside(self, chance: random.Random) -> Work:
        return lambda: self.follower.position_of(chance.choice(self.places) + chance.randrange(self._count))

    def find_time(self, chance: random.Random) -> Work:
        return lambda: self.follower.offset_of(time_of(chance.choice(self.places)))

    def read_message(self, chance: random.Random) -> Work:
        def work() -> None:
            at = chance.choice(self.places) + chance.randrange(self._count)
            next(self.follower.read(at, at + 1))

        return work

    def close(self) -> None:
        self.follower.close()
        self.broker.close()


def report_length(report: Report, folder: Path, count: int, size: int) -> None:
    sizes = [256 << 20, 1 << 30, 10 << 30]
    logs = [LongLog(folder / f"long-{count}-{number}", size_bytes, count, size) for number, size_bytes in enumerate(sizes)]
    title = f"a partition of sends of {count} x {size} bytes; segments"
    head(report, title, [f"{len(list(Path(log.directory).glob('*.log')))}" for log in logs])
    chance = random.Random(1)
    works: dict[str, Callable[[LongLog], Work]] = {
        "the place of an offset that begins a send": lambda log: log.find_send(chance),
        "the place of any offset": lambda log: log.find_inside(chance),
        "an offset by its time": lambda log: log.find_time(chance),
        "any message, its send checked": lambda log: log.read_message(chance),
        "a look for new messages": lambda log: log.follower.refresh,
        "a poll that finds nothing": lambda log: (
            lambda: log.broker.messages.poll(TOPIC, 1, PollRequest(PollingStrategy.offset(1 << 40), 10))
        ),
        "append 1 x 100 bytes": lambda log: lambda: log.broker.messages.send(TOPIC, 1, SMALL),
    }
    for name, make in works.items():
        row(report, name, measure({number: make(log) for number, log in enumerate(logs)}, 15, 60), "us")
    for log in logs:
        log.close()


# -- partitions, topics, consumers --------------------------------------------------------------------------


def report_breadth(report: Report, folder: Path, noun: str) -> None:
    """Append to, poll and wait for a growing number of partitions of a topic, or of topics, one after the other."""
    counts = [1, 100, 1000]
    head(report, noun, [f"{count:,}" for count in counts])
    found: dict[str, list[float]] = {}
    for count in counts:
        before_mb, before_files = memory_mb(), open_files()
        broker = Broker(open_directory(str(folder / f"{noun}-{count}")))
        begin = time.perf_counter()
        if noun == "partitions":
            broker.topics.create(NewTopic(TOPIC, count, Limits.IGGY))
            places = [(TOPIC, number) for number in range(1, count + 1)]
        else:
            for number in range(count):
                broker.topics.create(NewTopic(TopicName("bench", f"t{number}"), 1, Limits.IGGY))
            places = [(TopicName("bench", f"t{number}"), 1) for number in range(count)]
        created = (time.perf_counter() - begin) / count * 1e3
        works: dict[str, Work] = {
            "append 1 x 100 bytes": lambda places=places, broker=broker: [broker.messages.send(*each, SMALL) for each in places],  # type: ignore[misc]
            "poll 1 message": lambda places=places, broker=broker: [  # type: ignore[misc]
                broker.messages.poll(*each, PollingStrategy.offset(0), 1) for each in places
            ],
        }
        if noun == "partitions":
            ends = dict.fromkeys(range(1, count + 1), 5 * max(1, 1000 // count))
            works["a look of one who waits for all, each"] = lambda broker=broker, ends=ends: broker.messages.wait(TOPIC, ends, 0)  # type: ignore[misc]
        rows = {name: time_each(work, count) for name, work in works.items()}
        for name, value in {"create, each": created, **rows}.items():
            found.setdefault(name, []).append(value)
        found.setdefault("open files", []).append(open_files() - before_files)
        found.setdefault("memory", []).append(memory_mb() - before_mb)
        broker.close()
    units = {"create, each": "ms", "open files": "", "memory": "MB"}
    for name, values in found.items():
        row(report, name, values, units.get(name, "us"))


def time_each(work: Work, count: int) -> float:
    """Return the median microseconds for each of `count` places, by the third time on."""
    calls = max(1, 1000 // count)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(calls):
            work()
        times.append((time.perf_counter() - begin) / calls / count * 1e6)
    return statistics.median(times[1:])


def report_consumers(report: Report, folder: Path) -> None:
    counts = [1, 100, 1000]
    head(report, "consumer groups of a topic", [f"{count:,}" for count in counts])
    broker = Broker(open_directory(str(folder / "consumers")))
    broker.topics.create(NewTopic(TOPIC, 1, Limits.IGGY))
    rates = []
    for count in counts:
        groups = [OffsetOwner.group(f"g{number}") for number in range(count)]
        for group in groups:
            broker.offsets.commit(TOPIC, group, {1: 0})
        begin, commits = time.perf_counter(), 20_000
        for number in range(commits):
            broker.offsets.commit(TOPIC, groups[number % count], {1: number})
        rates.append(commits / (time.perf_counter() - begin))
    row(report, "commits of offsets a second, in turn", rates, "")
    broker.close()


# -- senders that share a sync --------------------------------------------------------------------------------


def report_group_commit(report: Report, folder: Path) -> None:
    counts = [1, 8, 64]
    head(report, "fsync=always; senders", [str(count) for count in counts])
    rates, shares = [], []
    real = os.fdatasync
    for count in counts:
        syncs: list[None] = []

        def counted(descriptor: int, syncs: list[None] = syncs) -> None:
            syncs.append(None)
            real(descriptor)

        broker = Broker(open_directory(str(folder / f"always-{count}")))
        broker.topics.create(NewTopic(TOPIC, 1, Limits.IGGY, fsync=Fsync.ALWAYS))
        broker.messages.send(TOPIC, 1, SMALL)
        each = 2000 // count

        def run(broker: Broker = broker, each: int = each) -> None:
            for _ in range(each):
                broker.messages.send(TOPIC, 1, SMALL)

        threads = [threading.Thread(target=run) for _ in range(count)]
        os.fdatasync = counted  # type: ignore[assignment]
        begin = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        rates.append(each * count / (time.perf_counter() - begin))
        os.fdatasync = real
        shares.append(each * count / (len(syncs) / 2))  # a sync is of the data and of the index
        broker.close()
    row(report, "sends a second", rates, "")
    row(report, "sends a sync", shares, "")


def main() -> None:
    with tempfile.TemporaryDirectory() as name, Report("log_curves", write="--dry" not in sys.argv) as report:
        folder = Path(name)
        report_length(report, folder, count=1000, size=1024)
        report_length(report, folder, count=100, size=1024)
        report_breadth(report, folder, "partitions")
        report_breadth(report, folder, "topics")
        report_consumers(report, folder)
        report_group_commit(report, folder)


if __name__ == "__main__":
    main()
