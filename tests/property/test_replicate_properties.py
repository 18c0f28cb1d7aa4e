"""Properties of the Replicate codecs: round trips; compiled, interpreted and plain readers agree on any bytes at all."""

from __future__ import annotations

import contextlib
import datetime
import io
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.errors import DecodeError, SchemaError
from headstream.replicate.codec import (
    Change,
    ColumnMetadata,
    Envelope,
    Lineage,
    TableMetadata,
    data_message,
    data_schema,
    decode_data,
    decode_envelope,
    decode_mask,
    decode_metadata,
    encode_envelope,
    encode_mask,
    mask_from_hex,
    mask_to_hex,
    metadata_message,
)
from headstream.replicate.codec.avro.reader import AvroReader
from headstream.replicate.codec.avro.rows import compile_rows
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import decode_value, encode_value
from headstream.replicate.codec.envelope_parts import BROKEN, DATA, JSON, METADATA, NEITHER, REGISTRY, UNKNOWN
from tests.support import kernels
from tests.support.replicate.replicate_rows import decode_plainly, lay_out, offsets_of, records_of, same

AVROS = kernels.variants("headstream.replicate.codec.avro.rows")
SPLITTERS = kernels.variants("headstream.replicate.codec.envelopes")

names = st.text(st.characters(codec="utf-8"), max_size=12)
texts = st.text(st.characters(codec="utf-8"), max_size=40)
ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
times_ms = st.integers(0, 86_399_999).map(lambda ms: (datetime.datetime(1970, 1, 1) + datetime.timedelta(milliseconds=ms)).time())

# Replicate's types, with a strategy of their values; a NUMERIC is (12, 3).
TYPES: dict[str, st.SearchStrategy[Any]] = {
    "INT4": ints,
    "INT8": longs,
    "UINT4": st.integers(0, 2**32 - 1),
    "UINT8": st.integers(0, 2**64 - 1).map(Decimal),
    "NUMERIC": st.integers(-(10**12) + 1, 10**12 - 1).map(lambda number: Decimal(number).scaleb(-3)),
    "REAL4": st.floats(width=32, allow_nan=False),
    "REAL8": st.floats(allow_nan=False),
    "BOOLEAN": st.booleans(),
    "BYTES": st.binary(max_size=40),
    "WSTRING": texts,
    "NCLOB": texts,
    "DATE": st.dates(),
    "TIME": times_ms,
    "DATETIME": st.datetimes(),
}


@st.composite
def tables(draw: st.DrawFn) -> list[ColumnMetadata]:
    found = draw(st.lists(st.tuples(names, st.sampled_from(list(TYPES))), min_size=1, max_size=6, unique_by=lambda pair: pair[0]))
    return [ColumnMetadata(name, place + 1, kind, 0, 12, 3) for place, (name, kind) in enumerate(found)]


def rows_of(columns: list[ColumnMetadata]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({column.name: st.none() | TYPES[column.type] for column in columns})


@st.composite
def changes(draw: st.DrawFn, columns: list[ColumnMetadata]) -> Change:
    return Change(
        draw(st.sampled_from(["INSERT", "UPDATE", "DELETE", "REFRESH"])),
        draw(rows_of(columns)),
        draw(st.none() | rows_of(columns)),
        draw(texts),
        draw(texts),
        draw(texts),
        draw(texts),
        draw(st.none() | st.binary(max_size=20)),
        draw(st.none() | st.binary(max_size=20)),
        draw(st.none() | longs),
        draw(st.none() | st.booleans()),
    )


@st.composite
def tables_with_changes(draw: st.DrawFn, most: int = 4) -> tuple[list[ColumnMetadata], list[Change]]:
    columns = draw(tables())
    return columns, draw(st.lists(changes(columns), min_size=1, max_size=most))


envelopes = st.builds(
    Envelope,
    st.sampled_from(["MD", "DT"]),
    st.binary(max_size=60),
    st.none() | st.dictionaries(texts, texts, max_size=4),
    st.none() | texts,
    st.none() | texts,
)


@st.composite
def mutations(draw: st.DrawFn, message: bytes) -> bytes:
    """Some bytes of a message changed, taken out or put in."""
    data = bytearray(message)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        drawn = draw(st.binary(min_size=0, max_size=3) | st.sampled_from([b"\x00", b"\x02", b"\xff" * 9, b"\x80" * 10]))
        data[at : at + draw(st.integers(0, 3))] = drawn
    return bytes(data)


def message_of(schema: str, change: Change) -> bytes:
    message = decode_envelope(data_message(schema, change)).message
    assert isinstance(message, bytes)
    return message


def fails(read: Callable[[], object], *kinds: type[Exception]) -> bool:
    try:
        read()
    except kinds:
        return True
    return False


@given(envelopes)
def test_decode_envelope_returns_what_encode_envelope_was_given_and_refuses_each_truncation(envelope: Envelope) -> None:
    encoded = encode_envelope(envelope)
    assert decode_envelope(encoded) == envelope
    for end in range(len(encoded)):
        assert fails(lambda end=end: decode_envelope(encoded[:end]), DecodeError)  # type: ignore[misc]


@given(st.sets(st.integers(1, 300)), st.sampled_from(["little", "big"]))
def test_decode_mask_returns_the_ordinals_that_encode_mask_was_given(ordinals: set[int], order: Any) -> None:
    mask = encode_mask(ordinals, order=order)
    assert decode_mask(mask, order) == ordinals
    assert mask_from_hex(mask_to_hex(mask)) == mask
    assert decode_mask(mask_from_hex(mask_to_hex(encode_mask(ordinals)).lstrip("0"))) == ordinals


@settings(max_examples=60)
@given(
    tables(), st.sampled_from(["avro", "json"]), texts, st.builds(Lineage, texts, texts, texts, texts.filter(bool), longs, texts)
)
def test_decode_metadata_returns_what_metadata_message_was_given(
    columns: list[ColumnMetadata], form: Any, schema_id: str, lineage: Lineage
) -> None:
    metadata = TableMetadata(schema_id, lineage, tuple(columns), data_schema(columns, logical_types=True))
    envelope = decode_envelope(metadata_message(metadata, form=form))
    assert decode_metadata(envelope) == metadata
    assert TableMetadata.from_json(metadata.to_json()) == metadata


@settings(max_examples=100, deadline=None)
@given(st.data(), tables_with_changes(), st.booleans())
def test_data_comes_back_from_every_reader(data: st.DataObject, drawn: Any, logical_types: bool) -> None:
    columns, changed = drawn
    schema = data_schema(columns, logical_types=logical_types)
    found = [decode_envelope(data_message(schema, change)) for change in changed]
    if logical_types:
        assert [decode_data(envelope, schema) for envelope in found] == changed
    messages = [message_of(schema, change) for change in changed]
    with contextlib.suppress(fastavro.schema.SchemaParseException, ValueError):  # names that are not legal in Avro
        known = fastavro.parse_schema(json.loads(schema.replace('"logicalType"', '"was"')))
        read: list[Any] = [fastavro.schemaless_reader(io.BytesIO(message), known) for message in messages]
        assert [record["beforeData"] is None for record in read] == [change.before is None for change in changed]
    plan = compile_rows(schema)
    expected = [decode_plainly(schema, message) for message in messages]
    for avro in AVROS:
        rows = avro.decode_rows(plan, *lay_out(messages))
        assert rows.faults == []
        assert records_of(plan, rows) == expected


@settings(max_examples=40, deadline=None)
@given(tables_with_changes(1))
def test_every_truncation_of_a_row_is_a_fault_of_that_row(drawn: Any) -> None:
    columns, [change] = drawn
    schema = data_schema(columns, logical_types=True)
    message = message_of(schema, change)
    cut = [message[:end] for end in range(len(message) + 1)]
    for avro in AVROS:
        rows = avro.decode_rows(compile_rows(schema), *lay_out(cut))
        assert list(rows.rows) == [len(message)]
        assert [index for index, _ in rows.faults] == list(range(len(message)))
        assert all(0 <= fault.at <= index for index, fault in rows.faults)


def check_that_readers_agree(schema: str, messages: list[bytes]) -> None:
    """Every reader takes the same messages of these, for the same rows, and refuses the others."""
    plan = compile_rows(schema)
    expected = []
    for index, message in enumerate(messages):
        with contextlib.suppress(DecodeError):
            expected.append((index, decode_plainly(schema, message)))
    data, starts, ends = lay_out(messages)
    held = []
    for avro in AVROS:
        rows = avro.decode_rows(plan, data, starts, ends)
        assert list(rows.rows) == [index for index, _ in expected]
        assert same(records_of(plan, rows), [record for _, record in expected])
        assert sorted([*rows.rows, *(index for index, _ in rows.faults)]) == list(range(len(messages)))
        assert all(isinstance(fault, DecodeError) and 0 <= fault.at <= len(messages[index]) for index, fault in rows.faults)
        parts = [bytes(part) for column in rows.columns for part in column if part is not None]
        held.append((parts, [(index, str(fault)) for index, fault in rows.faults]))
    assert all(other == held[0] for other in held)


@settings(max_examples=40, deadline=None)
@given(st.data(), tables_with_changes(1), st.integers(1, 255))
def test_readers_agree_on_every_flipped_byte_of_a_row(data: st.DataObject, drawn: Any, flip: int) -> None:
    columns, [change] = drawn
    schema = data_schema(columns, logical_types=True)
    message = message_of(schema, change)
    flipped = [message[:at] + bytes([message[at] ^ flip]) + message[at + 1 :] for at in range(len(message))]
    check_that_readers_agree(schema, flipped)


@settings(max_examples=100, deadline=None)
@given(st.data(), tables_with_changes(2))
def test_readers_agree_on_mutated_rows(data: st.DataObject, drawn: Any) -> None:
    columns, changed = drawn
    schema = data_schema(columns, logical_types=True)
    messages = [message_of(schema, change) for change in changed]
    mutated = [data.draw(mutations(message)) for message in messages for _ in range(4)]
    check_that_readers_agree(schema, mutated + messages)


PLAIN: list[Any] = [
    *("boolean", "int", "long", "float", "double", "bytes", "string"),
    {"type": "fixed", "name": "F", "size": 3},
    {"type": "fixed", "name": "D", "size": 5, "logicalType": "decimal", "precision": 11},
    {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 38},
    {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
]


def _nested(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    records = st.lists(inside, max_size=3).map(
        lambda kinds: {"type": "record", "name": "N", "fields": [{"name": str(n), "type": k} for n, k in enumerate(kinds)]}
    )
    arrays = inside.map(lambda kind: {"type": "array", "items": kind})
    maps = inside.map(lambda kind: {"type": "map", "values": kind})
    return records | arrays | maps | st.lists(inside.filter(lambda kind: not isinstance(kind, list)), min_size=1, max_size=3)


# Without logical types, which are not looked at in what is passed over.
KINDS = st.recursive(
    st.sampled_from(["null", *(kind for kind in PLAIN if isinstance(kind, str) or "logicalType" not in kind)]),
    _nested,
    max_leaves=5,
)
TINY = st.lists(st.sampled_from([b"\x00", b"\x01", b"\x02", b"\x03", b"\x04", b"\x06", b"a", b"\xff", b"\x80"]), max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.lists(KINDS, min_size=1, max_size=3), st.lists(TINY.map(b"".join) | st.binary(max_size=30), max_size=8))
def test_readers_agree_on_any_bytes_behind_headers_of_any_type(kinds: list[Any], messages: list[bytes]) -> None:
    headers = {"type": "record", "name": "Headers", "fields": [{"name": f"h{n}", "type": k} for n, k in enumerate(kinds)]}
    data = {"type": "record", "name": "Data", "fields": [{"name": "a", "type": ["null", "int"]}]}
    members = [{"name": "headers", "type": headers}, {"name": "data", "type": data}]
    check_that_readers_agree(json.dumps({"type": "record", "name": "R", "fields": members}), messages)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(PLAIN), st.integers(0, 3)), min_size=1, max_size=5),
    st.lists(st.binary(max_size=30), max_size=8),
)
def test_readers_agree_on_any_bytes_by_any_flat_schema(kinds: list[Any], messages: list[bytes]) -> None:
    wraps: list[Callable[[Any], Any]] = [lambda t: t, lambda t: [t], lambda t: ["null", t], lambda t: [t, "null"]]
    fields = [{"name": str(place), "type": wraps[wrap](kind)} for place, (kind, wrap) in enumerate(kinds)]
    data = {"type": "record", "name": "Data", "fields": fields}
    members = [{"name": "data", "type": data}, {"name": "beforeData", "type": ["Data", "null"]}]
    check_that_readers_agree(json.dumps({"type": "record", "name": "R", "fields": members}), messages)


def check_that_splitters_agree(messages: list[bytes]) -> None:
    """split_envelopes takes the same messages as decode_envelope, and finds the same parts."""
    data = b"".join(messages)
    for splitter in SPLITTERS:
        found = splitter.split_envelopes(offsets_of(messages), data)
        for row, message in enumerate(messages):
            form = found.form[row]
            assert (form in (NEITHER, BROKEN, UNKNOWN)) == (row in found.faults)
            parts = {}
            for name in ("id", "schema", "payload", "headers"):
                start, end = getattr(found, f"{name}_start")[row], getattr(found, f"{name}_end")[row]
                parts[name] = None if start < 0 else data[start:end]
            if form in (METADATA, DATA):
                envelope = decode_envelope(message)
                assert envelope.type == ("MD" if form == METADATA else "DT")
                assert parts["payload"] == envelope.message
                assert parts["id"] == (None if envelope.schema_id is None else envelope.schema_id.encode())
                assert parts["schema"] == (None if envelope.schema is None else envelope.schema.encode())
                assert (
                    None if parts["headers"] is None else AvroReader(parts["headers"]).pull_map("headers")
                ) == envelope.headers
            elif form not in (JSON, REGISTRY):
                assert fails(lambda message=message: decode_envelope(message), DecodeError)  # type: ignore[misc]
                assert set(parts.values()) == {None}


@settings(max_examples=150, deadline=None)
@given(st.data(), envelopes)
def test_splitters_agree_on_mutated_envelopes(data: st.DataObject, envelope: Envelope) -> None:
    message = encode_envelope(envelope)
    flip = data.draw(st.integers(1, 255))
    flipped = [message[:at] + bytes([message[at] ^ flip]) + message[at + 1 :] for at in range(min(len(message), 60))]
    check_that_splitters_agree([message, *flipped, *(data.draw(mutations(message)) for _ in range(4)), message[:-1]])


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=40).map(lambda tail: b"atMSG" + tail) | st.binary(max_size=10), max_size=5))
def test_splitters_agree_on_any_bytes(messages: list[bytes]) -> None:
    check_that_splitters_agree(messages)


@settings(max_examples=100, deadline=None)
@given(st.data(), tables_with_changes(1), st.sampled_from(["avro", "json"]))
def test_plain_readers_give_a_value_or_an_error_of_ours(data: st.DataObject, drawn: Any, form: Any) -> None:
    columns, [change] = drawn
    schema = data_schema(columns, logical_types=form == "json" or data.draw(st.booleans()))
    metadata = TableMetadata("I" * 32, Lineage("", "", "s", "t"), tuple(columns), schema)
    finite = all(
        not isinstance(value, float) or abs(value) < 1e300 for row in (change.data, change.before or {}) for value in row.values()
    )
    messages = [metadata_message(metadata, form=form), data_message(metadata, change, form=form if finite else "avro")]
    for message in (data.draw(mutations(message)) for message in messages for _ in range(3)):
        with contextlib.suppress(DecodeError, SchemaError):
            envelope = decode_envelope(message)
            if envelope.type == "MD":
                assert decode_metadata(envelope).data_schema
            else:
                assert decode_data(envelope, schema).operation


@settings(max_examples=100, deadline=None)
@given(st.data(), tables())
def test_compile_rows_reads_or_refuses_a_schema_whatever_was_changed_in_it(
    data: st.DataObject, columns: list[ColumnMetadata]
) -> None:
    schema = data_schema(columns, logical_types=True).encode()
    text = data.draw(mutations(schema)).decode(errors="replace")
    with contextlib.suppress(SchemaError):
        assert compile_rows(text).columns is not None
    with contextlib.suppress(SchemaError, DecodeError):
        avro_type = parse_schema(text)
        decode_value(AvroReader(bytes(40)), avro_type)


def _is_a_least_decimal(value: object) -> bool:
    """Return whether fastavro gives a decimal a byte more than it needs: the least number of a size, as -128."""
    if not isinstance(value, Decimal):
        return False
    unscaled = int(value.scaleb(3))
    return unscaled < 0 and unscaled.bit_length() % 8 == 0 and -unscaled == 1 << (unscaled.bit_length() - 1)


@pytest.mark.parametrize("logical_types", [True, False])
def test_fastavro_writes_the_bytes_that_we_write(logical_types: bool) -> None:
    columns = [ColumnMetadata(kind.lower(), place + 1, kind, 0, 12, 3) for place, kind in enumerate(TYPES)]
    schema = data_schema(columns, logical_types=logical_types)
    known = fastavro.parse_schema(json.loads(schema))
    avro_type = parse_schema(schema)
    headers = {"operation": "UPDATE", "changeSequence": "1", "timestamp": "", "streamPosition": "", "transactionId": ""}
    headers |= {"changeMask": b"\x01", "columnMask": None, "transactionEventCounter": 1, "transactionLastEvent": None}  # type: ignore[dict-item]

    @settings(max_examples=60, deadline=None)
    @given(rows_of(columns), st.none() | rows_of(columns))
    def check(row: dict[str, Any], before: dict[str, Any] | None) -> None:
        ours = encode_value(avro_type, {"data": row, "beforeData": before, "headers": headers})
        read: Any = fastavro.schemaless_reader(io.BytesIO(ours), known)
        out = io.BytesIO()
        fastavro.schemaless_writer(out, known, read)
        if not any(map(_is_a_least_decimal, [*row.values(), *(before or {}).values()])):
            assert out.getvalue() == ours
        reader = AvroReader(out.getvalue())
        again = decode_value(reader, avro_type)
        reader.finish("the row")
        assert encode_value(avro_type, again) == ours

    check()
