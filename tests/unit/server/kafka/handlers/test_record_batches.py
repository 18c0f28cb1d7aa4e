"""Record batches of Kafka's clients: into messages, and out of a log again."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import headstream as hs
from headstream.core.codec.batch.stored.stamp import stamp
from headstream.core.codec.binary import decode_sent
from headstream.errors import DecodeError, HeaderError, HeadstreamError, LimitError
from headstream.server.kafka.handlers import record_batches
from headstream.server.kafka.handlers.record_batches import read_batch
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError
from tests.support.messages.kafka_records import Record, make_batch, make_records

_HEAD_BYTES = 61


def _back_and_forth(records: list[Record]) -> tuple[bytes, int]:
    """Return the records that a client gets of what another one has sent, and the base of their times."""
    batch = read_batch(memoryview(make_batch(make_records(records), len(records))))
    stored = stamp(batch.messages, 7, 5, bytes(16), True)
    made = bytes(record_batches.make_batch([stored.data], 7, 6 + len(records)))
    assert read_batch(memoryview(made)).messages_count == len(records)
    return made[_HEAD_BYTES:], struct.unpack_from(">q", made, 27)[0]


_bytes = st.one_of(st.none(), st.binary(max_size=40), st.just(b'{"schema":{"type":"int32"},"payload":3}'))
_names = st.text(min_size=1, max_size=8).filter(lambda name: not name.startswith("hs."))
_headers = st.lists(st.tuples(_names, _bytes), max_size=5)
_records = st.lists(
    st.builds(
        lambda key, value, headers, delta: Record(key, value, [(name.encode(), data) for name, data in headers], delta),
        _bytes,
        _bytes,
        _headers,
        st.integers(-5000, 10_000).filter(lambda delta: delta != -1001),  # the batch begins at 1000 ms; -1 ms is no time
    ),
    min_size=1,
    max_size=6,
)


@settings(max_examples=200, deadline=None)
@given(_records)
@example([Record(None, b"", [(b"spring_json_header_types", b'{"a":"java.lang.Long"}'), (b"a", b"5")])])
@example([Record(None, b"", [(b"ce_specversion", b"1.0"), (b"ce_id", b"\xff")])])
@example([Record(b"k", None, [(b"h", b"x")] * 70, 3), Record(b"k", b"v", [(b"hs.timestampx", b"1")])])
def test_records_come_back_as_they_were_when_stored_and_fetched(records: list[Record]) -> None:
    spelled, base_ms = _back_and_forth(records)
    assert spelled == make_records([record._replace(time_delta=record.time_delta + 1000 - base_ms) for record in records])


def test_typed_headers_come_back_as_they_were_when_hs_kinds_tells_their_kinds() -> None:
    headers = [(b"a", b"3"), (b"b", b"-0.5"), (b"a", b"true"), (b"n", b"x"), (b"hs.kinds", b"a=uint8,bool&b=float64")]
    record = Record(b"k", b"v", headers)
    assert _back_and_forth([record])[0] == make_records([record])


def test_an_id_becomes_the_messages_when_a_record_brings_one() -> None:
    headers = [(b"hs.id", b"00000000-0000-0000-0000-000000000007"), (b"a", b"1")]
    message = decode_sent(read_batch(memoryview(make_batch(make_records([Record(None, b"v", headers)]), 1))).messages)[0]
    assert message.id == 7 << 120
    assert message.headers == hs.Headers([("hs.timestamp", 1_000_000), ("a", b"1")])


@pytest.mark.parametrize(
    "header", [(b"hs.key", b"k"), (b"hs.null", b"1"), (b"hs.state", b"poisoned"), (b"", b"x"), (b"k" * 256, b"")]
)
def test_a_batch_is_refused_when_a_header_cannot_be_one(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(HeaderError):
        read_batch(memoryview(make_batch(make_records([Record(None, b"v", [header])]), 1)))


def _changed(at: int, data: bytes) -> bytes:
    batch = bytearray(make_batch(make_records([Record(b"k", b"v")]), 1))
    batch[at : at + len(data)] = data
    return bytes(batch)


@pytest.mark.parametrize(
    ("batch", "fault"),
    [
        (_changed(16, b"\1"), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (make_batch(make_records([Record()]), 1, attributes=16), ErrorCode.INVALID_RECORD),
        (make_batch(make_records([Record()]), 1, attributes=32), ErrorCode.INVALID_RECORD),
        (make_batch(make_records([Record()]), 1, attributes=5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (make_batch(make_records([Record()]), 2), ErrorCode.INVALID_RECORD),
        (2 * make_batch(make_records([Record()]), 1), ErrorCode.INVALID_RECORD),
    ],
)
def test_a_batch_is_refused_by_kafkas_own_error_when_it_is_not_served(batch: bytes, fault: ErrorCode) -> None:
    with pytest.raises(ProtocolError) as refused:
        read_batch(memoryview(batch))
    assert refused.value.fault is fault


@pytest.mark.parametrize("batch", [b"", bytes(60), _changed(17, b"1234"), _changed(66, b"x"), _changed(8, b"\0\0\7\7")])
def test_a_batch_is_refused_as_damaged_when_it_is_not_what_it_says(batch: bytes) -> None:
    with pytest.raises(DecodeError):
        read_batch(memoryview(batch))


def test_every_changed_byte_is_found_when_a_batch_is_damaged() -> None:
    whole = make_batch(make_records([Record(b"k", b"v" * 20, [(b"a", b"1")])]), 1)
    for at in range(16, len(whole)):
        with pytest.raises(HeadstreamError):
            read_batch(memoryview(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]))


def _packed(codec: int, plain: bytes) -> bytes:
    import gzip

    import cramjam
    import lz4.frame
    import zstandard

    made: Any = {
        1: lambda: gzip.compress(plain, 9),
        2: lambda: bytes(cramjam.snappy.compress_raw(plain)),
        3: lambda: lz4.frame.compress(plain, store_size=False),
        4: lambda: zstandard.ZstdCompressor(write_content_size=False).compress(plain),
    }
    packed: bytes = made[codec]()
    return packed


def test_records_that_are_more_than_they_say_are_refused() -> None:
    plain = make_records([Record(None, bytes(100_000), [], 0)])
    packed = bytearray(_packed(1, plain))
    packed[-4:] = (1000).to_bytes(4, "little")
    with pytest.raises(LimitError, match="exceed the limit of 1000 bytes"):
        read_batch(memoryview(make_batch(bytes(packed), 1, attributes=1)))
