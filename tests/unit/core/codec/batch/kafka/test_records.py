"""Records of Kafka's batches into messages and back, compiled and interpreted."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

import pytest

import headstream as hs
from headstream.core.codec.batch.stored.stamp import stamp
from headstream.core.codec.binary import decode_sent, encode_sent
from headstream.errors import DecodeError, LimitError
from tests.support import kernels
from tests.support.messages.kafka_records import Record, make_records

_MOST = 1 << 26
_HEAD_BYTES = 61
reading = kernels.fixture("batch.kafka.records")
writing = kernels.fixture("batch.kafka.batches")


def _refuse(*left: Any) -> Any:
    raise AssertionError(f"nothing is left here: {left}")


def _message(payload: bytes | None, headers: Any = None) -> hs.Message:
    return hs.Message(payload=payload, headers=hs.Headers() if headers is None else headers)


def _read(reading: ModuleType, records: list[Record], base_ms: int | None = 1000) -> list[hs.Message]:
    data = reading.decode_records(make_records(records), len(records), base_ms, _refuse, _MOST)
    return decode_sent(data)


def test_decode_records_keeps_key_value_time_and_headers_when_a_record_has_all(reading: ModuleType) -> None:
    record = Record(b"k", b"v", [(b"a", b"3"), (b"n", None), (b"hs.kinds", b"a=uint8"), (b"a", b"x")][:3], 5)
    message = _read(reading, [record])[0]
    assert (message.key, message.payload, message.id) == (b"k", b"v", 0)
    expected = hs.Headers([("hs.timestamp", 1_005_000), ("a", hs.uint8(3)), ("n", None)])
    assert message.headers == expected


def test_decode_records_tells_null_from_empty_when_keys_and_values_are_either(reading: ModuleType) -> None:
    found = _read(reading, [Record(None, None), Record(b"", b""), Record(None, b""), Record(b"", None)], None)
    assert [(message.key, message.payload) for message in found] == [(None, None), (b"", b""), (None, b""), (b"", None)]
    assert not any(message.headers for message in found)


@pytest.mark.parametrize(
    "headers",
    [
        [(b"hs.id", b"7")],
        [(b"hs.key", b"x")],
        [(b"hs.timestamp", b"5")],
        [(b"h", b"")] * 65,
        [(b"ce_specversion", b"1.0")],
        [(b"", b"x")],
    ],
)
def test_decode_records_leaves_a_record_when_its_headers_are_rare(
    reading: ModuleType, headers: list[tuple[bytes, bytes]]
) -> None:
    left: list[tuple[bytes, int]] = []

    def read_left(record: memoryview, base_ms: int) -> bytes:
        left.append((bytes(record), base_ms))
        return encode_sent([_message(b"left")])

    records = [Record(value=b"1"), Record(value=b"2", headers=headers), Record(value=b"3")]
    data = reading.decode_records(make_records(records), 3, 7, read_left, _MOST)
    assert [message.payload for message in decode_sent(data)] == [b"1", b"left", b"3"]
    assert [base_ms for _, base_ms in left] == [7]
    assert b"2" in left[0][0]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_decode_records_refuses_when_there_are_not_so_many(reading: ModuleType, count: int) -> None:
    with pytest.raises(DecodeError):
        reading.decode_records(make_records([Record(), Record()]), count, 0, _refuse, _MOST)


def test_decode_records_refuses_when_messages_would_be_too_long(reading: ModuleType) -> None:
    with pytest.raises(LimitError):
        reading.decode_records(make_records([Record(value=bytes(5000))]), 1, 0, _refuse, 1000)


@pytest.mark.parametrize(
    ("base_ms", "delta"), [((1 << 63) // 1000 - 5, 10), (5 - (1 << 63) // 1000, -10), (1 << 62, 0), (-(1 << 63), 0)]
)
def test_decode_records_refuses_a_time_when_it_is_out_of_range(reading: ModuleType, base_ms: int, delta: int) -> None:
    with pytest.raises(DecodeError, match="time"):
        reading.decode_records(make_records([Record(time_delta=delta)]), 1, base_ms, _refuse, _MOST)


def test_decode_records_refuses_every_cut_and_survives_every_changed_byte_when_input_is_hostile(reading: ModuleType) -> None:
    whole = make_records([Record(b"k" * 70, b"v" * 9, [(b"a", b"1"), (b"b", None)]), Record(None, None, [], -3)])
    for end in range(len(whole)):
        with pytest.raises(DecodeError):
            reading.decode_records(whole[:end], 2, 10, _refuse, _MOST)
    for at in range(len(whole)):
        for flip in (1, 0x80, 0xFF):
            changed = bytearray(whole)
            changed[at] ^= flip
            try:
                data = reading.decode_records(changed, 2, 10, lambda record, base: encode_sent([_message(b"")]), _MOST)
                assert stamp(data, 0, 0, bytes(16), True).count == 2
            except (DecodeError, LimitError):
                continue


def _head(batch: bytes) -> tuple[int, ...]:
    return struct.unpack(">qiibIhiqqqhii", batch[:_HEAD_BYTES])


@pytest.mark.parametrize("base_ms", [-5_000_000, -1003, -4, 3, -((1 << 63) // 1000) + 2000])
def test_a_time_before_1970_keeps_its_value_when_it_is_stored_and_fetched(
    reading: ModuleType, writing: ModuleType, base_ms: int
) -> None:
    records = [Record(value=b"%d" % delta, time_delta=delta) for delta in (0, 1, -1000, 1000)]
    sent = reading.decode_records(make_records(records), 4, base_ms, _refuse, _MOST)
    times = [message.headers["hs.timestamp"] for message in decode_sent(sent)]
    assert times == [1000 * (base_ms + delta) for delta in (0, 1, -1000, 1000)]
    batch = bytes(writing.encode_batch([stamp(sent, 10, 99, bytes(16), True).data], 10, 13, 0, _refuse))
    assert batch[_HEAD_BYTES:] == make_records(records)
    assert _head(batch)[7:9] == (base_ms, base_ms + 1000)


def test_a_record_has_no_time_when_its_time_is_minus_one(reading: ModuleType) -> None:
    found = _read(reading, [Record(time_delta=1), Record(time_delta=0), Record(time_delta=7)], -2)
    assert [message.headers.get("hs.timestamp") for message in found] == [None, -2000, 5000]
