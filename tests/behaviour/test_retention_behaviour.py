"""Topics that keep so long or so much drop the rest behind the back of who reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headstream as hs
from headstream.client.arguments import TopicOptionsInput
from headstream.errors import InvalidOptionError, TopicNotFoundError
from tests.behaviour.conftest import KINDS, open_place
from tests.support.waiting import wait_until


@pytest.fixture(params=KINDS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[hs.Client]:
    with open_place(request.param, tmp_path, segment_bytes=4096) as place:
        log = place.connect()
        log.create_topic("shop/orders")
        yield log


def send(log: hs.Client, count: int) -> None:
    with log.producer("shop/orders", batch_count=1) as producer:
        for number in range(count):
            producer.send(b"%04d" % number * 250)


def first_offset(log: hs.Client) -> int:
    return log.topic("shop/orders").partitions[0].first_offset


def test_retention_drops_segments_beyond_the_size_and_the_rest_is_read(log: hs.Client) -> None:
    send(log, 30)
    consumer = log.consumer("shop/orders", timeout_ms=0)
    assert consumer.poll(1)[0].offset == 0
    topic = log.update_topic("shop/orders", retention_bytes=10_000)
    assert (topic.retention_us, topic.retention_bytes) == (None, 10_000)
    wait_until(lambda: first_offset(log) == 21)
    assert [message.offset for message in log.poll("shop/orders", start=0, count=100)] == list(range(21, 30))
    assert log.topic("shop/orders").size_bytes <= 10_000
    send(log, 1)
    assert log.poll("shop/orders", start="last", count=1)[0].offset == 30


def test_retention_drops_old_segments_but_never_the_open_one(log: hs.Client) -> None:
    send(log, 10)
    log.update_topic("shop/orders", retention_us=1)
    wait_until(lambda: first_offset(log) == 9)
    assert [message.offset for message in log.poll("shop/orders")] == [9]


def test_a_consumer_behind_goes_on_with_what_is_there(log: hs.Client) -> None:
    send(log, 30)
    assert log.poll("shop/orders", consumer="me", count=2, auto_commit=True)[-1].offset == 1
    log.update_topic("shop/orders", retention_us=1)
    wait_until(lambda: first_offset(log) == 27)
    assert log.poll("shop/orders", consumer="me", count=1)[0].offset == 27


def test_update_topic_refuses_retention_limits_out_of_range(log: hs.Client) -> None:
    retained: list[TopicOptionsInput] = [{"retention_us": 0}, {"retention_bytes": -1}, {"retention_bytes": 1 << 63}]
    for option in retained:
        with pytest.raises(InvalidOptionError, match="or None for unlimited retention"):
            log.update_topic("shop/orders", **option)
    with pytest.raises(TopicNotFoundError):
        log.update_topic("shop/none", retention_us=5)
    assert log.topic("shop/orders").retention_us is None
    assert log.update_topic("shop/orders", retention_us=1 << 60).retention_us == 1 << 60
    assert log.update_topic("shop/orders").retention_us == 1 << 60
    changed = log.update_topic("shop/orders", retention_us=None, deduplication_count=7)
    assert (changed.retention_us, changed.deduplication_count, changed.compaction_delay_us) == (None, 7, None)
    dropped: list[TopicOptionsInput] = [
        {"compaction_delay_us": -1},
        {"deduplication_count": 0},
        {"deduplication_count": 10_000_001},
        {"deletion_grace_us": -1},
    ]
    for option in dropped:
        with pytest.raises(InvalidOptionError, match="or None"):
            log.update_topic("shop/orders", **option)
    made = log.create_topic("shop/prices", compaction_delay_us=0, retention_bytes=10**9)
    assert (made.compaction_delay_us, made.retention_bytes, made.retention_us) == (0, 10**9, None)
    with pytest.raises(InvalidOptionError, match=r"no option 'retention'\. Did you mean retention_us"):
        log.update_topic("shop/orders", retention=5)  # type: ignore[call-arg]
