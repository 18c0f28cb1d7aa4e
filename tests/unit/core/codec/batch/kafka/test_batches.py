"""Unit tests of headstream.core.codec.batch.kafka.batches."""

from __future__ import annotations

from types import ModuleType

import pytest

import headstream as hs
from headstream.core.codec.batch.stored.stamp import stamp
from headstream.core.codec.binary import decode_polled, encode_sent
from tests.support.messages.kafka_records import Record, make_records
from tests.unit.core.codec.batch.kafka.test_records import _HEAD_BYTES, _MOST, _head, _message, _refuse, reading, writing

__all__ = ["reading", "writing"]  # fixtures


def _stored(messages: list[hs.Message], base_offset: int = 10) -> bytes:
    return bytes(stamp(encode_sent(messages), base_offset, 2_000_500, bytes(16), True).data)


def test_encode_batch_gives_records_back_when_they_came_from_a_client(reading: ModuleType, writing: ModuleType) -> None:
    records = [
        Record(b"k", b"v"),
        Record(None, None, [], 5),
        Record(b"", b"x" * 300, [(b"a", b"3"), (b"b", None), (b"a", b"12.5"), (b"hs.kinds", b"a=uint8,float64")], -3),
        Record(b"q" * 300, b"z" * 5000, [], 2),
    ]
    spelled = make_records(records)
    sent = reading.decode_records(spelled, 4, 1000, _refuse, _MOST)
    batch = bytes(writing.encode_batch([stamp(sent, 10, 99, bytes(16), True).data], 10, 13, 0, _refuse))
    assert batch[_HEAD_BYTES:] == spelled
    assert _head(batch)[0] == 10
    assert _head(batch)[6:] == (3, 1000, 1005, -1, -1, -1, 4)


@pytest.mark.parametrize("time_us", [-1, -1000])
def test_encode_batch_keeps_the_header_and_takes_the_logs_time_when_kafka_has_no_number_for_it(
    writing: ModuleType, time_us: int
) -> None:
    stored = _stored(
        [_message(b"x", hs.Headers([("hs.timestamp", time_us)])), _message(b"y", hs.Headers([("hs.timestamp", -1001)]))]
    )
    batch = bytes(writing.encode_batch([stored], 10, 11, 0, _refuse))
    assert _head(batch)[7:9] == (2000, 2000)
    assert batch.count(b"hs.timestamp") == 4  # and of each the kind in hs.kinds


def test_encode_batch_takes_the_logs_time_when_a_message_has_none(writing: ModuleType) -> None:
    batch = bytes(writing.encode_batch([_stored([_message(b"x")])], 10, 10, 0, _refuse))
    assert _head(batch)[7:9] == (2_000, 2_000)


def test_encode_batch_keeps_a_time_as_header_when_it_has_microseconds(writing: ModuleType) -> None:
    message = _message(b"x", hs.Headers({"hs.timestamp": 7_001_234}))
    batch = bytes(writing.encode_batch([_stored([message])], 10, 10, 0, _refuse))
    assert _head(batch)[7] == 7_001
    assert b"hs.timestamp\x0e7001234" in batch
    assert b"hs.timestamp=int64" in batch


def test_encode_batch_has_gaps_when_messages_are_missing(writing: ModuleType) -> None:
    first, last = _stored([_message(b"a")], 12), _stored([_message(b"b")], 20)
    batch = bytes(writing.encode_batch([first, last], 10, 30, 4, _refuse))
    assert (_head(batch)[0], _head(batch)[2], _head(batch)[6], _head(batch)[-1]) == (10, 4, 20, 2)
    assert batch[_HEAD_BYTES:] == b"\x0e\0\0\x04\x01\x02a\0" + b"\x0e\0\0\x14\x01\x02b\0"


def test_encode_batch_has_no_records_when_there_are_no_messages(writing: ModuleType) -> None:
    batch = bytes(writing.encode_batch([], 10, 30, 0, _refuse))
    assert len(batch) == _HEAD_BYTES
    assert (_head(batch)[6], _head(batch)[-1]) == (20, 0)


def test_encode_batch_leaves_a_message_when_its_headers_are_rare(writing: ModuleType) -> None:
    origin = hs.Headers([("n", n) for n in range(70)])
    left: list[tuple[int | None, int]] = []

    def write_left(stored: memoryview, base_ms: int | None, base_offset: int) -> tuple[bytes, int]:
        left.append((base_ms, base_offset))
        assert decode_polled(stored)[0].payload == b"2"
        return b"\x02L", 5_000

    messages = [_message(b"1"), _message(b"2", origin), _message(b"3")]
    batch = bytes(writing.encode_batch([_stored(messages)], 10, 12, 0, write_left))
    assert left == [(2_000, 10)]
    assert batch[_HEAD_BYTES:] == b"\x0e\0\0\0\x01\x021\0" + b"\x02L" + b"\x0e\0\0\x04\x01\x023\0"
    assert _head(batch)[8] == 5_000


def test_encode_batch_has_room_when_texts_are_longer_than_values(writing: ModuleType) -> None:
    headers = hs.Headers([(f"\x01{n}", hs.int128(-(2**127))) for n in range(60)])
    batch = bytes(writing.encode_batch([_stored([_message(b"x", headers)] * 50)], 10, 59, 0, _refuse))
    assert _head(batch)[-1] == 50
    assert batch.count(str(-(2**127)).encode()) == 50 * 60
