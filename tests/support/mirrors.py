"""A topic whose copies by killed mirrors are checked: each message once, each partition in order, in its state."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import headstream as hs

TOPIC = "shop/orders"
COUNT = 30_000
PARTITIONS = 3
KILLS = 6
POISONED = (7, 4_000, 9_999)


def fill(source: hs.Client, poisoned: Sequence[int] = POISONED) -> None:
    """Fill the topic; messages at some offsets of each partition are poisoned."""
    source.create_topic(TOPIC, partitions=PARTITIONS)
    with source.producer(TOPIC, batch_count=500) as producer:
        for number in range(COUNT):
            partition = 1 + number % PARTITIONS
            producer.send(b"%d" % number, key=b"k", headers={"n": number}, id=number + 1, partition=partition)
    for partition in range(1, PARTITIONS + 1) if poisoned else ():
        source.set_state(TOPIC, partition, list(poisoned), "poisoned")


def check(target: hs.Client, poisoned: Sequence[int] = POISONED) -> None:
    """Each message is there once, each partition in order, in its state."""
    for place in target.topic(TOPIC).partitions:
        numbers, found = list[int](), list[int]()
        with target.consumer(TOPIC, partitions=[place.number], states=None, timeout_ms=0) as consumer:
            for message in consumer:
                numbers.append(int(message.payload or b""))
                assert message.id == numbers[-1] + 1
                assert message.key == b"k"
                assert message.headers["n"] == numbers[-1]
                if message.state == hs.MessageState.POISONED:
                    found.append(len(numbers) - 1)
        assert numbers == list(range(numbers[0], COUNT, PARTITIONS))
        assert found == list(poisoned)
    assert len(target.topic(TOPIC).partitions) == PARTITIONS


def stored(url: str) -> int:
    """Return how many messages the destination has."""
    with hs.connect(url) as log:
        try:
            return sum(partition.end_offset for partition in log.topic(TOPIC).partitions)
        except hs.NotFoundError:
            return 0


def command(source: str, target: str, *options: str) -> list[str]:
    """Return the command of a mirror of what there is now."""
    return [sys.executable, "-m", "headstream.cli", "mirror", source, target, "--once", "--output", "json", *options]
