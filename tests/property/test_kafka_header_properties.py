"""Kafka's headers in kernels: both ways they do what the record functions do, whatever the headers, compiled and interpreted."""

from __future__ import annotations

from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.codec.kafka import KafkaHeader, KafkaRecord, decode_record, encode_record
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.core.model.reserved import is_reserved
from tests.support import kernels
from tests.support.messages.kafka_columns import kafka_columns, kafka_rows, varied
from tests.support.messages.strategies import all_headers

_DECODING = kernels.variants("batch.kafka.decoding")
_ENCODING = kernels.variants("batch.kafka.encoding")

_usual: st.SearchStrategy[bytes | None] = st.sampled_from(
    [b"1", b"-1", b"300", b"0", b"-0", b"1.5", b"1e5", b"nan", b"-inf", b"true", b"false", b"x", b"\xc3\xa9", b"\xff", b"", None]
)
_floats = st.floats().map(lambda number: repr(number).encode())
_texts = _usual | st.binary(max_size=12) | st.from_regex(rb"-?[0-9]{1,41}", fullmatch=True) | _floats
_names = st.sampled_from(["a", "b", "é", "a b", "", "hs.kinds", "hs.id", "hs.key", "hs.appended", "hs.other", "spring_json_x"])
_kinds = st.sampled_from(
    [
        "raw", "string", "bool", "int8", "int16", "int32", "int64", "int128", "uint8", "uint64", "uint128", "float32",
        "float64", "null", "char", "3", "200", "0", "99x", "float64:00",
    ]
)  # fmt: skip
_entries = st.tuples(st.sampled_from(["a", "b", "%C3%A9", "a%20b", "%61", "%", "="]), st.lists(_kinds, min_size=1, max_size=3))
_told = st.lists(_entries, max_size=4).map(lambda told: "&".join(f"{key}={','.join(kinds)}" for key, kinds in told).encode())


@st.composite
def records(draw: st.DrawFn) -> list[KafkaHeader]:
    headers = draw(st.lists(st.tuples(_names, _texts), max_size=6))
    if draw(st.booleans()):
        headers.append(("hs.kinds", draw(_told)))
    return headers


@pytest.mark.parametrize("kernel", _DECODING, ids=kernels.name_of)
@settings(max_examples=200, deadline=None)
@given(rows=st.lists(records(), max_size=4))
def test_decode_kafka_headers_does_what_decode_record_does_or_leaves_the_row(
    kernel: ModuleType, rows: list[list[KafkaHeader]]
) -> None:
    made = kernel.decode_kafka_headers(*kafka_columns(rows))
    at = 0
    for number, row in enumerate(rows):
        end = int.from_bytes(made.blocks.offsets[4 * number + 4 : 4 * number + 8], "little")
        block, at = bytes(made.blocks.data[at:end]), end
        if made.flags[number] == kernel.FALLBACK_ROW:
            assert block == b""
        else:
            headers = decode_record(KafkaRecord(value=b"x", headers=tuple(row)), on_loss="drop").headers
            assert block == headers.as_bytes()
            assert (made.flags[number] == kernel.LOSSY_ROW) == any(key == "" for key, _ in row)


@pytest.mark.parametrize("kernel", _ENCODING, ids=kernels.name_of)
@settings(max_examples=150, deadline=None)
@given(rows=st.lists(all_headers, max_size=4))
def test_encode_kafka_headers_does_what_encode_record_does_or_leaves_the_row(kernel: ModuleType, rows: list[Headers]) -> None:
    made = kernel.encode_kafka_headers(len(rows), varied([headers.as_bytes() for headers in rows]))
    for headers, flag, found in zip(rows, made.flags, kafka_rows(made.lists, made.keys, made.values), strict=True):
        if flag:
            assert found == []
        else:
            assert not any(is_reserved(key) for key in headers)
            record = encode_record(Message(payload=b"", headers=headers))
            assert tuple(found) == record.headers
            back = _DECODING[0].decode_kafka_headers(*kafka_columns([found]))
            assert back.flags[0] or bytes(back.blocks.data) == headers.as_bytes()
