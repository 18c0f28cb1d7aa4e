"""decode_columns: every column against the messages, and VARIANT against Spark's own reader of it."""

from __future__ import annotations

import mmap
import struct
import uuid
import zlib
from decimal import localcontext
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import VariantVal

from headstream.core.codec.batch.results import Columns
from headstream.core.codec.binary import decode_headers, decode_polled
from headstream.errors import DecodeError, InvalidOptionError, LimitError
from tests.support import kernels
from tests.support.messages.batches import header, stored

KEY = header("hs.key", 1, b"key bytes")
NULL = header("hs.null", 3, b"\x01")
TRACE = header("trace", 2, b"abc") + header("n", 12, struct.pack("<Q", 42)) + header("ok", 3, b"\x01")
MESSAGES = [
    stored(b"plain", offset=5, timestamp_us=1_700_000_000_000_000, message_id=1),
    stored(b"with headers", TRACE, offset=6, state=20, timestamp_us=7, message_id=(1 << 128) - 2),
    stored(b"keyed", KEY + TRACE, offset=7, state=99),
    stored(b"", KEY + NULL + header("after", 4, b"\xff"), offset=8),
    stored(b"", NULL, offset=9),
    stored(b"", header("x", 9, b"\x01") + NULL, offset=10),
    stored(b"x", KEY + NULL, offset=11),
    stored(b"x" * 3000, header("hs.key", 2, b"a string is no key"), offset=12),
    stored(b"", header("hs.key", 1, b""), offset=(1 << 63) - 1),
]
BATCH = b"".join(MESSAGES)
columns = kernels.fixture("batch.to_columns.columns")


def binary(offsets: Any, data: Any, validity: Any, count: int) -> list[bytes | None]:
    buffers = [None if validity is None else pa.py_buffer(validity), pa.py_buffer(offsets), pa.py_buffer(data)]
    array = pa.Array.from_buffers(pa.binary(), count, buffers)
    array.validate(full=True)
    values: list[bytes | None] = array.to_pylist()
    return values


def variants(result: Columns) -> list[Any]:
    values = binary(result.headers_offsets, result.headers_data, None, result.count)
    metadata = binary(result.metadata_offsets, result.metadata_data, None, result.count)
    with localcontext(prec=40):  # Spark's reader rounds to the context's precision
        return [VariantVal(value or b"", keys or b"").toPython() for value, keys in zip(values, metadata, strict=True)]


def test_columns_hold_what_the_messages_do(columns: ModuleType) -> None:
    result = columns.decode_columns(BATCH)
    messages = decode_polled(BATCH)
    assert result.count == len(messages)
    assert struct.unpack(f"<{result.count}q", result.offset) == tuple(m.offset for m in messages)
    assert struct.unpack(f"<{result.count}q", result.timestamp) == tuple(m.timestamp for m in messages)
    assert list(result.state) == [m.state for m in messages]
    assert struct.unpack(f"<{result.count}I", result.checksum) == tuple(m.checksum for m in messages)
    assert [result.id_data[at : at + 36].decode() for at in range(0, 36 * result.count, 36)] == [
        str(uuid.UUID(bytes=m.id.to_bytes(16, "little"))) for m in messages
    ]
    assert binary(result.key_offsets, result.key_data, result.key_validity, result.count) == [m.key for m in messages]
    assert binary(result.payload_offsets, result.payload_data, result.payload_validity, result.count) == [
        m.payload for m in messages
    ]
    assert variants(result) == [{name: value.value for name, value in m.headers.items()} for m in messages]
    assert not any(result.repeated)


def test_columns_hold_header_blocks_without_the_reserved_ones(columns: ModuleType) -> None:
    result = columns.decode_columns(BATCH, headers="binary")
    blocks = binary(result.headers_offsets, result.headers_data, None, result.count)
    assert [decode_headers(block or b"") for block in blocks] == [m.headers for m in decode_polled(BATCH)]
    assert result.metadata_offsets is result.metadata_data is None


def test_columns_leave_out_what_is_not_asked_for(columns: ModuleType) -> None:
    result = columns.decode_columns(BATCH, headers="none", ids=False)
    assert result.id_data is result.headers_offsets is result.headers_data is result.repeated is None
    assert binary(result.key_offsets, result.key_data, result.key_validity, result.count) == [m.key for m in decode_polled(BATCH)]


def test_a_validity_is_left_out_where_every_value_is_there(columns: ModuleType) -> None:
    result = columns.decode_columns(stored(b"a", KEY) + stored(b"", KEY))
    assert result.key_validity is result.payload_validity is None
    many = columns.decode_columns(b"".join(stored(b"a" if i % 3 else b"", b"" if i % 3 else NULL) for i in range(50)))
    payloads = binary(many.payload_offsets, many.payload_data, many.payload_validity, 50)
    assert payloads == [b"a" if i % 3 else None for i in range(50)]


def test_columns_of_no_messages_are_empty(columns: ModuleType) -> None:
    for form in ("none", "binary", "variant"):
        result = columns.decode_columns(b"", headers=form)
        assert (result.count, result.offset, result.payload_offsets, result.payload_data) == (0, b"", bytes(4), b"")
    assert variants(columns.decode_columns(b"")) == []


def test_verify_names_the_message_whose_checksum_does_not_fit(columns: ModuleType) -> None:
    assert columns.decode_columns(BATCH, verify=True).payload_data == columns.decode_columns(BATCH).payload_data
    at = BATCH.index(b"with headers")
    damaged = bytearray(BATCH)
    damaged[at] ^= 4
    assert columns.decode_columns(damaged).count == len(MESSAGES)
    with pytest.raises(DecodeError, match=r"a payload does not match its checksum at byte 50 \(the message at offset 6\)"):
        columns.decode_columns(damaged, verify=True)


def test_every_truncation_is_refused_with_its_place(columns: ModuleType) -> None:
    data = MESSAGES[1] + MESSAGES[3]
    for size in range(1, len(data)):
        if size == len(MESSAGES[1]):
            continue
        with pytest.raises(DecodeError) as caught:
            columns.decode_columns(data[:size])
        error = caught.value
        assert error.have is not None
        assert error.at + error.have == size


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (b"\x01\0\0", "a header is cut short at byte 87"),
        (b"\x09\0\0\0k", "a header key is cut short at byte 91"),
        (header("k", 1, b"vv")[:-1], "a header value is cut short at byte 97"),
        (header("", 1, b"v"), "must have 1 to 255 bytes at byte 91"),
        (header("k" * 256, 1, b"v"), "must have 1 to 255 bytes at byte 91"),
        (header(b"a\xff", 1, b"v"), "a header key is not UTF-8 at byte 92"),
        (header("k", 2, b"a\xff"), "a string header value is not UTF-8 at byte 98"),
        (header("k", 6, b"123"), "width of its kind at byte 97: 4 bytes needed, 3 available"),
        (header("k", 3, b"\x02"), "not 0 or 1 at byte 97"),
        (header("k", 0, b"v"), "the invalid kind 0 at byte 92"),
    ],
)
def test_malformed_headers_are_refused_with_their_place(columns: ModuleType, block: bytes, text: str) -> None:
    with pytest.raises(DecodeError, match=text):
        columns.decode_columns(stored(b"p") + stored(b"p", block))


def test_an_offset_beyond_int64_keeps_its_bits(columns: ModuleType) -> None:
    result = columns.decode_columns(stored(b"p", offset=(1 << 64) - 1, timestamp_us=1 << 63))
    assert struct.unpack("<q", result.offset) == (-1,)
    assert struct.unpack("<q", result.timestamp) == (-(1 << 63),)


def test_more_payload_than_offsets_can_say_is_refused_by_name(columns: ModuleType) -> None:
    size = (1 << 31) + 100
    with mmap.mmap(-1, size) as memory:  # never touched but for the head, so it costs no memory
        head = stored(b"")[:41] + struct.pack("<I", size - 45)
        memory[: len(head)] = head
        with pytest.raises(LimitError, match=r"exceed the limit of 2147483647 bytes per column \(column payload\)"):
            columns.decode_columns(memory)


def test_an_unknown_form_of_headers_is_refused(columns: ModuleType) -> None:
    with pytest.raises(InvalidOptionError, match="none, binary or variant, not 'map'"):
        columns.decode_columns(BATCH, headers="map")


def test_the_checksums_in_these_tests_are_zlibs() -> None:
    assert [m.checksum for m in decode_polled(BATCH)] == [zlib.crc32(m.payload or b"") for m in decode_polled(BATCH)]
