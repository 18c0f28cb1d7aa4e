"""Filters: only messages that match are delivered, from any log, and what is passed over moves the offset."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.broker.messages import page
from headstream.client.consumer import receiving
from headstream.core.model.identifiers import format_message_id
from headstream.errors import HeaderError, InvalidInputError, InvalidOptionError
from headstream.log.upkeep.summaries import Summaries
from tests.behaviour.conftest import Place, at, numbers, open_place

TOPIC = "shop/orders"


def offsets(messages: Sequence[hs.Message]) -> list[int | None]:
    return [message.offset for message in messages]


def send_orders(log: hs.Client, count: int, payload: bytes = b"order", partition: int = 1) -> None:
    """Send messages whose headers say which they are: `number`, `source` (web or app), and on every third `vip`."""
    with log.producer(TOPIC, linger_ms=60_000) as producer:  # one send, however slow the machine is
        for number in range(count):
            headers: dict[str, Any] = {"number": hs.uint32(number), "source": "web" if number % 2 else "app"}
            if number % 3 == 0:
                headers["vip"] = True
            producer.send(payload, key=b"%d" % number, headers=headers, id=number + 1, partition=at(partition))


def test_a_poll_returns_messages_that_match_by_headers_and_fields(log: hs.Client) -> None:
    send_orders(log, 20)
    assert offsets(log.poll(TOPIC, count=100, where="number >= 15 AND source IN ('web', 'tablet')")) == [15, 17, 19]
    assert offsets(log.poll(TOPIC, count=2, where="vip")) == [0, 3]
    assert offsets(log.poll(TOPIC, count=100, start=10, where="vip AND NOT source = 'web'")) == [12, 18]
    assert offsets(log.poll(TOPIC, count=100, where="vip IS NULL AND number < 6.5")) == [1, 2, 4, 5]
    assert offsets(log.poll(TOPIC, count=100, where="_key IN ('7', '9') OR _offset BETWEEN 2 AND 3")) == [2, 3, 7, 9]
    assert offsets(log.poll(TOPIC, count=100, where="source LIKE 'w_b' AND _size = 5 AND _offset < 4")) == [1, 3]
    first = log.poll(TOPIC, count=1)[0]
    assert offsets(log.poll(TOPIC, where=f"_timestamp < '2020-01-01' OR _id = '{format_message_id(first.id)}'")) == [0]
    assert log.poll(TOPIC, count=100, where="number > 1000") == []
    assert log.poll(TOPIC, count=100, where="colour = 'red' OR NOT colour = 'red'") == []


def test_a_consumer_delivers_and_commits_past_what_does_not_match(log: hs.Client) -> None:
    send_orders(log, 50)
    with log.consumer(TOPIC, group="billing", where="number IN (7, 30)", timeout_ms=0) as consumer:
        assert offsets(list(consumer)) == [7, 30]
        assert consumer.filter_counts == (50, 0)
    assert log.offsets(TOPIC, "billing") == {at(1): 50}
    with log.consumer(TOPIC, group="others", where="number > 1000", timeout_ms=0) as consumer:
        assert list(consumer) == []
    assert log.offsets(TOPIC, "others") == {at(1): 50}
    send_orders(log, 8)
    with log.consumer(TOPIC, group="billing", where="number IN (7, 30)", timeout_ms=0) as consumer:
        assert offsets(list(consumer)) == [57]


def test_a_filter_finds_the_last_message_although_a_request_examines_a_part_only(
    log: hs.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page, "SCAN_BYTES", 2000)
    monkeypatch.setattr(page, "_FILTERED_CHUNK_BYTES", 1000)
    for _ in range(20):  # each send is read as a whole
        send_orders(log, 10, b"x" * 50)
    assert offsets(log.poll(TOPIC, count=3, where="_offset IN (0, 101, 199)")) == [0, 101, 199]
    assert log.poll(TOPIC, count=3, where="number > 10") == []
    with log.consumer(TOPIC, name="me", where="_offset = 199", timeout_ms=0) as consumer:
        assert offsets(list(consumer)) == [199]
        assert consumer.filter_counts.scanned == 200
    with log.consumer(TOPIC, name="me", where="_offset >= 198", start="first", timeout_ms=0) as consumer:
        assert list(consumer) == []
    with log.consumer(TOPIC, where="number = 9", timeout_ms=0) as consumer:
        assert offsets(consumer.poll(100)) == [*range(9, 200, 10)]


def test_all_partitions_are_examined(log: hs.Client) -> None:
    log.create_topic("shop/many", partitions=3)
    with log.producer("shop/many") as producer:
        for number in range(30):
            producer.send(b"x", headers={"n": number}, partition=numbers(3)[number % 3])
    assert {message.headers["n"].value for message in log.poll("shop/many", where="n >= 25", count=100)} == {25, 26, 27, 28, 29}
    with log.consumer("shop/many", group="g", where="n = 0 OR n = 29", timeout_ms=0) as consumer:
        assert {message.headers["n"].value for message in consumer} == {0, 29}
    assert sum(log.offsets("shop/many", "g").values()) == 30


def test_a_message_that_the_filter_cannot_be_applied_to_goes_by_policy(
    log: hs.Client, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_warned", set())
    with log.producer(TOPIC) as producer:
        for value in (hs.uint8(3), "three", hs.float64(4.0), None, "four"):
            producer.send(b"x", headers={} if value is None else {"attempt": value}, partition=at(1))
    with caplog.at_level(logging.WARNING, "headstream.client"):
        assert offsets(log.poll(TOPIC, where="attempt >= 3")) == [0, 2]
    assert "some messages are skipped because this filter cannot be applied to them: attempt >= 3" in caplog.text
    assert offsets(log.poll(TOPIC, where="attempt >= 3", on_filter_error="deliver")) == [0, 1, 2, 4]
    assert offsets(log.poll(TOPIC, where="attempt >= 3 OR _offset = 1")) == [0, 1, 2]
    with log.consumer(TOPIC, where="attempt >= 3", timeout_ms=0) as consumer:
        assert offsets(list(consumer)) == [0, 2]
        assert consumer.filter_counts == (5, 2)
    with log.consumer(TOPIC, where="attempt >= 3", on_filter_error="raise", timeout_ms=0) as consumer:
        assert offsets(consumer.poll()) == [0]
        with pytest.raises(HeaderError, match=r"at offset 1: it compares the header 'attempt', of kind string, with 3"):
            consumer.poll()
        consumer.seek(at(1), 2)
        assert offsets(consumer.poll()) == [2]
    with pytest.raises(HeaderError, match="at offset 1"):
        log.poll(TOPIC, start=1, where="attempt >= 3", on_filter_error="raise")


def test_a_filter_that_cannot_be_used_is_an_error(log: hs.Client) -> None:
    with pytest.raises(InvalidInputError, match=r"at character 12: a value after >= is expected(.|\n)*\^"):
        log.poll(TOPIC, where="attempt >= ")
    with pytest.raises(InvalidInputError, match="at character 5"):
        log.consumer(TOPIC, where="a = = 1")
    with pytest.raises(InvalidOptionError, match="only available messages are requested"):
        log.poll(TOPIC, where="_state = 'poisoned'")
    with pytest.raises(InvalidOptionError, match="newest messages cannot be filtered"):
        log.poll(TOPIC, start="last", where="a = 1")
    with pytest.raises(InvalidOptionError, match="must be one of skip, deliver, raise"):
        log.poll(TOPIC, where="a = 1", on_filter_error="ignore")
    with pytest.raises(InvalidInputError, match="a filter must be a string, not 5"):
        log.poll(TOPIC, where=5)  # type: ignore[arg-type]


def test_a_filter_of_states_chooses_among_those_asked_for(log: hs.Client) -> None:
    send_orders(log, 10)
    log.set_state(TOPIC, 1, [2, 3, 8], "poisoned")
    log.set_state(TOPIC, 1, [5], "unavailable")
    assert offsets(log.poll(TOPIC, count=100, where="number >= 3")) == [4, 6, 7, 9]
    assert offsets(log.poll(TOPIC, count=100, states=None, where="_state = 'poisoned' AND number > 2")) == [3, 8]
    assert offsets(log.poll(TOPIC, count=100, states=None, where="_state NOT IN ('available', 'poisoned')")) == [5]
    assert offsets(log.poll(TOPIC, count=100, states=["poisoned"], where="number < 8")) == [2, 3]
    assert offsets(log.poll(TOPIC, count=1, states=["poisoned"], start=3, where="TRUE")) == [3]


def test_explain_says_where_a_filter_is_evaluated(place: Place, log: hs.Client) -> None:
    plan = log.explain_filter("attempt >= 3 AND _offset > 5 AND attempt < 9")
    assert (plan.headers, plan.fields, plan.on_filter_error) == (("attempt",), ("_offset",), "skip")
    kind = place.url.partition(":")[0]
    expected = {"memory": "in this process", "file": "in this process", "kafka": "in this client"}
    assert plan.evaluated == expected.get(kind, "by the server")
    assert plan.on == ("decoded messages" if kind == "kafka" else "stored bytes")


def test_a_committing_poll_moves_past_what_does_not_match(log: hs.Client) -> None:
    send_orders(log, 10)
    assert offsets(log.poll(TOPIC, at(1), consumer="me", auto_commit=True, count=2, where="number IN (1, 4, 6)")) == [1, 4]
    assert offsets(log.poll(TOPIC, at(1), consumer="me", auto_commit=True, count=2, where="number IN (1, 4, 6)")) == [6]
    assert log.poll(TOPIC, at(1), consumer="me", auto_commit=True, where="number > 0") == []


def test_an_asynchronous_client_has_the_same_filters(place: Place, log: hs.Client) -> None:
    send_orders(log, 30)

    async def read() -> tuple[list[int | None], list[int | None], int]:
        async with hs.connect_async(place.url, **place.options) as other:
            polled = await other.poll(TOPIC, where="number >= 27", count=100)
            async with other.consumer(TOPIC, where="vip AND number > 20", timeout_ms=0) as consumer:
                consumed = [message.offset async for message in consumer]
                return offsets(polled), list(consumed), consumer.filter_counts.scanned

    assert asyncio.run(read()) == ([27, 28, 29], [21, 24, 27], 30)


@pytest.fixture(params=["memory", "file", "tcp", "http"])
def small_segments(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[hs.Client]:
    monkeypatch.setattr(Summaries, "interval_s", 0.1)
    with open_place(request.param, tmp_path, segment_bytes=4096) as place:
        yield place.connect()


def test_segments_without_a_match_are_skipped_and_explained(small_segments: hs.Client) -> None:
    log = small_segments
    topic = log.create_topic(TOPIC, summary_headers=["number", "source"])
    assert topic.summary_headers == "number,source"
    for _ in range(4):  # segments of one send each
        send_orders(log, 20, b"x" * 200)
    before = log.explain_filter("vip AND number > 5", TOPIC)
    assert before.summarized == ("number",)
    assert before.segments is not None
    assert before.segments.segments_count == 4
    where = "number = 1000 OR source LIKE 'ios-%'"
    until = time.monotonic() + 60
    while (found := log.explain_filter(where, TOPIC)).segments.skipped_count < 3:  # type: ignore[union-attr]  # a log of ours
        assert time.monotonic() < until, "the closed segments were not summarized"
        time.sleep(0.05)
    assert found.summarized == ("number", "source")
    assert found.segments is not None
    assert 0 < found.segments.size_bytes - found.segments.skipped_bytes < found.segments.size_bytes / 3
    with log.consumer(TOPIC, group="billing", where=where, timeout_ms=0) as consumer:
        assert list(consumer) == []
        assert consumer.filter_counts == (80, 0)
    assert log.offsets(TOPIC, "billing") == {1: 80}
    assert offsets(log.poll(TOPIC, count=100, where="number = 7")) == [7, 27, 47, 67]
    assert offsets(log.poll(TOPIC, count=100, where="number = 7 AND _offset >= 60")) == [67]
    assert log.explain_filter("_offset >= 60", TOPIC).segments.skipped_count == 3  # type: ignore[union-attr]
    with pytest.raises(HeaderError):  # what the filter cannot be applied to is not skipped
        log.poll(TOPIC, where="number LIKE 'x'", on_filter_error="raise")
    assert log.update_topic(TOPIC, summary_headers=None).summary_headers is None


def test_names_of_summarized_headers_are_checked(small_segments: hs.Client) -> None:
    log = small_segments
    for names in ("", "a,,b", "a,a", ",".join("abcdefghi"), "x" * 256, "a\nb"):
        with pytest.raises(InvalidOptionError, match="summary_headers"):
            log.create_topic("shop/none", summary_headers=names)
    with pytest.raises(InvalidInputError, match="summary_headers"):
        log.create_topic("shop/none", summary_headers=[1])  # type: ignore[list-item]
    assert log.create_topic("shop/ü", summary_headers=" tenant , größe").summary_headers == "tenant,größe"
    assert log.update_topic("shop/ü", summary_headers=("trace.id",)).summary_headers == "trace.id"
    assert log.update_topic("shop/ü", retention_us=5).summary_headers == "trace.id"


@pytest.mark.parametrize("options", [{}, {"on_error": hs.Retry(None)}, {"mode": "shared"}], ids=["plain", "on_error", "shared"])
def test_a_group_with_a_filter_can_begin_after_the_newest_message(log: hs.Client, options: dict[str, Any]) -> None:
    def send(*numbers: int) -> None:
        with log.producer("shop/carts") as producer:
            for number in numbers:
                producer.send(b"%d" % number, headers={"vip": number % 2 == 0}, partition=at(2))

    send(0, 1, 2)
    begin: dict[str, Any] = {"group": "late", "start": "last", "where": "vip", "timeout_ms": 0, **options}
    with log.consumer("shop/carts", **begin) as consumer:
        assert list(consumer) == []
        send(3, 4, 5, 6)
        assert [message.payload for message in consumer] == [b"4", b"6"]
    send(8)
    with log.consumer("shop/carts", **begin) as consumer:  # it continues: last is for a group without an offset
        assert [message.payload for message in consumer] == [b"8"]
