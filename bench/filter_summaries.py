"""Filters with summaries of headers: 10 GB of which 0.1 % match, in one segment or spread over all, beside reading all.

Messages have a payload of 1,000 bytes and the headers tenant (the messages of one tenant are sent one after the other, 0.1 % of
all), user_id (all different, in no order), source (three values) and campaign ('rare' in every 1,000th message, else missing).
Reading all is a consumer with the first filter before the topic has summaries: it examines every message, as each filter does
then. `cold` are runs after the files were evicted from the page cache; `warm` is the run after such a one, what fits of the files
in it. Times are of the wall and, since other programs can run, of the processor.
The cost of appending is that of sends of 1,000 messages by one producer, with and without the option, alternating.
"""

from __future__ import annotations

import itertools
import os
import random
import statistics
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import headstream as hs  # noqa: E402
from bench.machine import Report, run_benchmark  # noqa: E402
from headstream.core.codec.binary import encode_sent  # noqa: E402
from headstream.core.model import constructors as kinds  # noqa: E402
from headstream.core.model.headers import Headers  # noqa: E402
from headstream.core.model.identifiers import TopicName  # noqa: E402
from headstream.core.model.message import Message  # noqa: E402

TOPIC = "bench/topic"
NAMES = "tenant,user_id,source,campaign"
COUNT = 9_000_000
QUICK_COUNT = 600_000
SEND = 1000
TENANTS = 1000
SOURCES = ("web", "app", "web", "shop")
PAYLOAD = b"x" * 1000
ROUNDS = 3
SENDS = 500
"""Sends of a measurement of appends: two segments."""

_USER = struct.Struct("<Q")
_BEFORE_USER = b"user_id" + bytes([12]) + (8).to_bytes(4, "little")
"""The key, the kind uint64 and the size of its value, as in a stored header."""


class Cost(NamedTuple):
    """What a run has found, and its cost in seconds."""

    found: int
    wall_s: float
    processor_s: float


def make_sends(count: int) -> Iterator[bytes]:
    """Yield the sends of so many messages: each tenant's are encoded once, and get other user ids in each send."""
    rng = random.Random(7)
    burst = count // TENANTS
    for tenant in range(TENANTS):
        size = min(SEND, burst)
        encoded = bytearray(encode_sent([_message(f"tenant-{tenant}", number) for number in range(size)]))
        places: list[int] = []
        for number in range(size):
            found = _BEFORE_USER + _USER.pack(number)
            places.append(encoded.index(found, places[-1] if places else 0) + len(_BEFORE_USER))
        for _ in range(burst // size):
            for place in places:
                _USER.pack_into(encoded, place, rng.getrandbits(48) << 4)
            yield bytes(encoded)


def _message(tenant: str, number: int) -> Message:
    headers: list[tuple[str, Any]] = [("tenant", tenant), ("user_id", kinds.uint64(number)), ("source", SOURCES[number % 4])]
    return Message(payload=PAYLOAD, headers=Headers([*headers, *([("campaign", "rare")] if number == 7 else [])]))


def fill(log: hs.Client, topic: str, sends: Iterator[bytes]) -> None:
    messages, name = log.transport.messages, TopicName.parse(topic)
    for send in sends:
        messages.send(name, 1, send)


def measure(log: hs.Client, where: str) -> Cost:
    """Read what matches, and return how many messages that is."""
    begin_s, processor_s = time.perf_counter(), time.process_time()
    with log.consumer(TOPIC, where=where, timeout_ms=0) as consumer:
        found = sum(1 for _ in consumer)
    return Cost(found, time.perf_counter() - begin_s, time.process_time() - processor_s)


def evict(directory: Path) -> None:
    """Evict the log's files from the page cache."""
    os.sync()
    for path in directory.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def wait_for_summaries(log: hs.Client) -> tuple[int, float, float]:
    """Set the option, and return the number of summarized segments, the wall's and the processor's time that it took."""
    begin_s, processor_s = time.perf_counter(), time.process_time()
    log.update_topic(TOPIC, summary_headers=NAMES)
    while True:
        counts = log.explain_filter("tenant = 'nobody'", TOPIC).segments
        assert counts is not None
        if counts.skipped_count == counts.segments_count - 1:
            return counts.skipped_count, time.perf_counter() - begin_s, time.process_time() - processor_s
        time.sleep(0.05)


def compare(report: Report, log: hs.Client, directory: Path, conditions: dict[str, tuple[str, int]]) -> None:
    """Print the costs before and after the segments are summarized."""
    size_bytes = log.topic(TOPIC).size_bytes
    before = {}
    for cache in ("cold", "warm"):
        if cache == "cold":
            evict(directory)
        before[cache] = measure(log, conditions["clustered"][0])
    report.line(
        f"  reading all: cold {before['cold'].wall_s:.2f} s, {before['cold'].processor_s:.2f} s of the processor; "
        f"warm {before['warm'].wall_s:.2f} s, {before['warm'].processor_s:.2f} s"
    )
    count, wall_s, processor_s = wait_for_summaries(log)
    summaries_bytes = sum(path.stat().st_size for path in directory.rglob("*.summary"))
    report.line(
        f"  {count} segments summarized in the background: {wall_s:.1f} s, {processor_s:.1f} s of the processor, "
        f"{size_bytes / 1e6 / processor_s:,.0f} MB/s"
    )
    report.line(f"  the summaries: {summaries_bytes / 1e6:,.1f} MB, {100 * summaries_bytes / size_bytes:.3f} % of the log")
    report.line("")
    columns = f"{'wall':>12}{'processor':>12}{'of all, wall':>14}{'processor':>11}"
    report.line(f"  {'condition':<14}{'cache':<7}{'found':>8}{'segments read':>15}{columns}")
    for name, (where, expected) in conditions.items():
        counts = log.explain_filter(where, TOPIC).segments
        assert counts is not None
        read = f"{counts.segments_count - counts.skipped_count} of {counts.segments_count}"
        for cache in ("cold", "warm") if counts.skipped_count else ("cold",):
            if cache == "cold":
                evict(directory)
            now, all_of_it = measure(log, where), before[cache]
            assert now.found == expected
            report.line(
                f"  {name:<14}{cache:<7}{now.found:>8,}{read:>15}{now.wall_s:>10.3f} s{now.processor_s:>10.3f} s"
                f"{all_of_it.wall_s / now.wall_s:>12.1f} x{all_of_it.processor_s / max(now.processor_s, 1e-9):>9.1f} x"
            )


def measure_appends(report: Report, directory: Path) -> None:
    """Print the time of appends with and without the option, alternating; the background works meanwhile."""
    sends = list(itertools.islice(make_sends(SEND * TENANTS), 20))
    times: dict[str, list[float]] = {"without": [], "with": []}
    for number in range(ROUNDS):
        for name, headers in (("without", None), ("with", NAMES)):
            url = (directory / f"appends-{name}-{number}").as_uri()
            with hs.connect(url) as log:
                log.create_topic(TOPIC, summary_headers=headers)
                begin_s = time.perf_counter()
                fill(log, TOPIC, (sends[index % len(sends)] for index in range(SENDS)))
                times[name].append(time.perf_counter() - begin_s)
                log.delete_topic(TOPIC)
    medians = {name: statistics.median(each) for name, each in times.items()}
    report.line("")
    report.line(f"  appends of 1,000 messages, median of {ROUNDS} runs of {SENDS}")
    for name, seconds in times.items():
        report.line(
            f"  {name + ' the option':<20}{SENDS / medians[name]:>8,.0f} a second{medians[name]:>8.2f} s "
            f"({min(seconds):.2f} to {max(seconds):.2f} s){medians[name] / medians['without']:>8.2f} x"
        )


def main() -> None:
    with run_benchmark("filter_summaries", __doc__, "600,000 messages") as (report, directory, is_quick):
        count = QUICK_COUNT if is_quick else COUNT
        with hs.connect((directory / "log").as_uri()) as log:
            log.create_topic(TOPIC)
            fill(log, TOPIC, make_sends(count))
            topic = log.topic(TOPIC)
            report.line("")
            report.line(f"  {count:,} messages, {topic.size_bytes / 1e9:.1f} GB; summarized: {NAMES}")
            rng = random.Random(7)
            middle = [rng.getrandbits(48) << 4 for _ in range(count // 2 + 1)][-1]
            conditions = {
                "clustered": (f"tenant = 'tenant-{TENANTS // 2}'", count // TENANTS),
                "both": (f"tenant = 'tenant-{TENANTS // 2}' AND source <> 'shop'", count // TENANTS * 3 // 4),
                "one message": (f"user_id = {middle}", 1),
                "none": ("source = 'till'", 0),
                "spread evenly": ("campaign = 'rare'", count // min(SEND, count // TENANTS)),
            }
            compare(report, log, directory / "log", conditions)
        measure_appends(report, directory)


if __name__ == "__main__":
    main()
