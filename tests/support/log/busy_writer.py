"""A process that does all that a log's writer can do, at once, in threads, and says what was acknowledged: to be killed.

    python -m tests.support.log.busy_writer URL BEGIN STATES_FROM

Each thread counts from BEGIN on and says a line for each thing that is acknowledged:

    sent PARTITION N       shop/orders: all up to N, payload `s<N>`
    staged N               shop/orders: epoch N, `e<N>` once in each partition
    once N                 shop/once (deduplication): N with id N; earlier ones are sent again now and then
    keyed N                shop/keyed (compaction): N under key N % KEYS
    short N                shop/short (retention): N
    state OFFSET N         shop/orders, partition 1: that offset is poisoned, reason N
    committed PARTITION N  shop/orders, group g: N
    made|filled|purged|gone N    topic tmp/t<N>
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import headstream as hs
from headstream.log.staged.submission import commit_staged
from headstream.log.upkeep.compaction import Compaction
from headstream.log.upkeep.retention import Retention
from tests.support.log.staged import manifest_of, stage

SEGMENT_BYTES = 32 * 1024
"""Small, so that segments are rolled, dropped and compacted all the time."""
KEYS = 5
ORDERS = "shop/orders"


def make_topics(log: hs.Client) -> None:
    """Make the topics that it works with."""
    log.create_topic(ORDERS, partitions=2)
    log.create_topic("shop/once", deduplication_count=1000)
    log.create_topic("shop/keyed", compaction_delay_us=0)
    log.create_topic("shop/short", retention_bytes=100_000)
    log.create_stream("tmp")


def report(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())  # in one piece, whatever the other threads say


def send_orders(log: hs.Client, begin: int, partition: int) -> None:
    chance = random.Random(begin + partition)
    with log.producer(ORDERS, linger_ms=1, batch_count=50) as producer:
        number = begin
        while True:
            for _ in range(chance.choice([1, 3, 100])):
                producer.send(b"s%d" % number + b"." * chance.choice([1, 100, 1000]), partition=partition)
                number += 1
            producer.flush()
            report("sent", partition, number - 1)


def commit_epochs(log: hs.Client, begin: int, root: str) -> None:
    for epoch in itertools.count(begin):
        rows = {(ORDERS, partition): [b"e%d" % epoch] for partition in (1, 2)}
        part = stage(Path(root), "job", epoch, "0", rows)
        commit_staged(root, manifest_of("job", epoch, part, identity=log.identity or ""), 20)
        report("staged", epoch)


def send_once(log: hs.Client, begin: int) -> None:
    with log.producer("shop/once", linger_ms=0) as producer:
        for number in itertools.count(begin):
            for again in (*range(number, max(1, number - 3), -2), number):
                producer.send(b"%d" % again, id=again)
            producer.flush()
            report("once", number)
            time.sleep(0.001)


def send_keyed(log: hs.Client, begin: int) -> None:
    with log.producer("shop/keyed", linger_ms=0) as producer:
        for number in itertools.count(begin):
            producer.send(b"%d" % number + b"." * 300, key=b"%d" % (number % KEYS))
            producer.flush()
            report("keyed", number)


def send_short(log: hs.Client, begin: int) -> None:
    with log.producer("shop/short", linger_ms=0) as producer:
        for number in itertools.count(begin):
            producer.send(b"%d" % number + b"." * 900)
            producer.flush()
            report("short", number)


def set_states(log: hs.Client, begin: int, offset: int) -> None:
    for number in itertools.count(begin):
        while log.topic(ORDERS).partitions[0].end_offset <= offset:
            time.sleep(0.002)
        log.set_state(ORDERS, 1, offset, "poisoned", reason=str(number))
        report("state", offset, number)
        offset += 1


def consume(log: hs.Client) -> None:
    with log.consumer(ORDERS, group="g") as consumer:
        while True:
            found = consumer.poll(20, timeout_ms=100)
            consumer.commit()
            if found:
                report("committed", found[-1].partition, (found[-1].offset or 0) + 1)


def administer(log: hs.Client, begin: int) -> None:
    for number in itertools.count(begin):
        name = f"tmp/t{number}"
        log.create_topic(name, partitions=2)
        report("made", number)
        with log.producer(name, linger_ms=0) as producer:
            producer.send(b"x", partition=1)
        report("filled", number)
        log.purge_topic(name)
        report("purged", number)
        log.delete_topic(name)
        report("gone", number)


def die_loudly(arguments: threading.ExceptHookArgs) -> None:
    """End the process when one of its threads fails: a test waits for what it says."""
    threading.__excepthook__(arguments)
    os._exit(1)


def work_in_threads(url: str, begin: int, states_from: int) -> None:
    """Do it all until the end of the process."""
    Retention.interval_s = Compaction.interval_s = 0.05
    threading.excepthook = die_loudly
    log = hs.connect(url, segment_bytes=SEGMENT_BYTES)
    works: list[Callable[[], None]] = [
        lambda: send_orders(log, begin, 1),
        lambda: send_orders(log, begin, 2),
        lambda: commit_epochs(log, begin, url.removeprefix("file://")),
        lambda: send_once(log, begin),
        lambda: send_keyed(log, begin),
        lambda: send_short(log, begin),
        lambda: set_states(log, begin, states_from),
        lambda: consume(log),
        lambda: administer(log, begin),
    ]
    for work in works:
        threading.Thread(target=work, daemon=True).start()
    time.sleep(600)  # longer than anyone lets it live, on the slowest machine


if __name__ == "__main__":
    work_in_threads(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
