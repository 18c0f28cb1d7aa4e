"""Reads Debezium's JSON messages, many at a time with Arrow's reader. Messages that this reader refuses are read one by one.

Messages of one schema begin with the same bytes, `{"schema":{..},"payload":`, which are parsed once. The payload is a line of
JSON that Arrow reads into columns. Messages in any other form (white space, `payload` first) are first converted to this form.
Arrow cannot read maps, and refuses a batch with a string such as "NaN" in a numeric column. In these cases each message is
decoded to Python values, and only messages that do not fit their schema are rejected.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from headstream.errors import DecodeError, SchemaError
from headstream.replicate.decoding.debezium.connect import ConnectField, infer_fields, row_fields
from headstream.replicate.decoding.debezium.order import SOURCE_FIELDS
from headstream.replicate.settings.debezium_settings import DebeziumSettings

RowNumbers: TypeAlias = npt.NDArray[np.int64]
_READ_ALONE: Final = 16
_SCHEMA: Final = '{"schema":'
_PAYLOAD: Final = b',"payload":'
_DECODER: Final = json.JSONDecoder()
_LOAD: Final = partial(json.loads, parse_float=Decimal)
_TRANSACTION: Final = pa.struct([("id", pa.string()), ("total_order", pa.int64())])
_OTHERS: Final = pa.schema([("status", pa.string()), ("event_count", pa.int64()), ("id", pa.string())])
_FOREIGN_MEMBERS: Final = {"ddl", "databaseName", "tableChanges", "source"}
"""Fields of schema changes. A heartbeat has only `ts_ms`; transaction metadata has `status` and `id`."""


@dataclass(frozen=True, slots=True)
class MessageGroup:
    """Messages of one schema.

    Args:
        rows: The messages' rows in the raw batch, which correspond to the rows of `table`.
        fields: The columns of `before` and `after`; None if the messages are not changes.
        table: The columns before, after, source, op, transaction; or the fields of transaction metadata.
        faults: Row of the raw batch -> the reason why the row cannot be read. Rows with faults are not in `rows`.
        is_inferred: Whether the column types are inferred.
        waits_for: The id of the schema that the messages wait for; "" if they have been read.
    """

    rows: RowNumbers
    fields: tuple[ConnectField, ...] | None
    table: pa.Table
    faults: dict[int, str] = field(default_factory=dict)
    is_inferred: bool = False
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class Shape:
    """The layout of the messages of one schema.

    Args:
        fields: The columns of `before` and `after`; None if the messages are not changes.
        reading: The Arrow schema for reading the messages.
        added: For flattened messages (ExtractNewRecordState), the path of each added field in the envelope; None for envelopes.
    """

    fields: tuple[ConnectField, ...] | None
    reading: pa.Schema
    added: dict[str, tuple[str, ...]] | None = None


Known: TypeAlias = Callable[[str, str], Sequence[ConnectField]]
"""Returns the known columns of a source schema and table."""


def no_messages(rows: RowNumbers, *, reason: str = "", waits_for: str = "") -> MessageGroup:
    """Return messages that are not read, because they are rejected with a reason or wait for a schema."""
    if waits_for:
        return MessageGroup(rows, None, _OTHERS.empty_table(), waits_for=waits_for)
    return MessageGroup(rows[:0], None, _OTHERS.empty_table(), dict.fromkeys(rows.tolist(), reason))


def read_groups(payloads: pa.BinaryArray, rows: RowNumbers, known: Known, settings: DebeziumSettings) -> Iterator[MessageGroup]:
    """Read messages in JSON, grouped by their schema.

    Args:
        payloads: The messages' values, without nulls.
        rows: The messages' rows in the raw batch.
        known: Returns the columns of messages without a schema.
        settings: Settings for the parts of messages that depend on the connector's configuration.
    """
    left = np.arange(len(rows))
    payloads = _in_one_form(payloads)
    with_schema = pc.starts_with(payloads, _SCHEMA).to_numpy(zero_copy_only=False)
    bare = left[~with_schema]
    if len(bare):
        yield from _read_bare(payloads.take(pa.array(bare)), rows[bare], known, settings)
    left = left[with_schema]
    while len(left):
        some = payloads.take(pa.array(left))
        first: bytes = some[0].as_py()
        prefix = _find_prefix(first)
        if prefix is None:
            yield no_messages(rows[left[:1]], reason="not a Debezium message in JSON")
            left = left[1:]
            continue
        same = pc.starts_with(some, pattern=prefix).to_numpy(zero_copy_only=False)
        lines = pc.binary_slice(some.filter(pa.array(same)), len(prefix), -1)
        try:
            yield _read_schema(_parse_schema(prefix, settings), lines, rows[left[same]])
        except SchemaError as error:
            yield no_messages(rows[left[same]], reason=str(error))
        left = left[~same]


def _in_one_form(payloads: pa.BinaryArray) -> pa.BinaryArray:
    """Return messages with the schema (if there is one) first and without white space; payloads are unchanged."""
    is_usual = pc.starts_with(payloads, '{"schema":{').to_numpy(zero_copy_only=False)
    if is_usual.all():
        return payloads
    wanted = np.flatnonzero(~is_usual & pc.match_substring(payloads, '"payload"').to_numpy(zero_copy_only=False))
    if not len(wanted):
        return payloads
    texts = payloads.to_pylist()
    for row in wanted.tolist():
        members = _members(texts[row])
        if members.keys() == {"schema", "payload"} and members["schema"] == "null":
            texts[row] = members["payload"].encode()
        elif members.keys() == {"schema", "payload"}:
            schema = json.dumps(json.loads(members["schema"]), separators=(",", ":"))
            texts[row] = b"".join((_SCHEMA.encode(), schema.encode(), _PAYLOAD, members["payload"].encode(), b"}"))
    return pa.array(texts, payloads.type)


def _members(message: bytes) -> dict[str, str]:
    """Return the JSON text of each member of an object; empty if the message is not an object."""
    found: dict[str, str] = {}
    try:
        text = message.decode()
        at = text.index("{")
        while text[at] in "{,":
            name, at = _DECODER.raw_decode(text, _next(text, at + 1))
            start = _next(text, text.index(":", at) + 1)
            _, end = _DECODER.raw_decode(text, start)
            found[name] = text[start:end]
            at = _next(text, end)
    except (ValueError, IndexError, TypeError):
        return {}
    return found


def _next(text: str, at: int) -> int:
    """Return the position of the next character that is not white space."""
    while text[at] in " \t\r\n":
        at += 1
    return at


def _find_prefix(message: bytes) -> bytes | None:
    """Return the prefix that all messages of the schema share; None if the message has a different form."""
    try:
        text = message.decode()
        _, end = _DECODER.raw_decode(text, len(_SCHEMA))
    except ValueError:
        return None
    prefix = text[:end].encode() + _PAYLOAD
    return prefix if message.startswith(prefix) and message.endswith(b"}") else None


@lru_cache(maxsize=1000)
def _parse_schema(prefix: bytes, settings: DebeziumSettings) -> Shape:
    return shape_of(json.loads(prefix[: -len(_PAYLOAD)] + b"}")["schema"] or {}, settings)


def shape_of(schema: Mapping[str, Any], settings: DebeziumSettings) -> Shape:
    """Return the shape of a schema's messages.

    Args:
        schema: Connect schema in JsonConverter's format.

    Raises:
        SchemaError: a type does not exist in Kafka Connect, or flattened messages cannot be read.
    """
    members = {str(member.get("field")): member for member in schema.get("fields", ())}
    if "op" in members and "after" in members:
        fields = row_fields(members["after"])
        return Shape(fields, _envelope(fields, settings))
    name = str(schema.get("name") or "")
    if name.startswith("io.debezium.") or (not name and _is_other(members)):
        return Shape(None, _OTHERS)
    return _flattened(members, settings)


def _is_other(members: Collection[str]) -> bool:
    """Return whether messages with the given fields are neither change envelopes nor flattened changes."""
    return not _FOREIGN_MEMBERS.isdisjoint(members) or {*members} <= {"ts_ms"} or {*members} >= {"status", "id", "event_count"}


def _flattened(members: Mapping[str, Mapping[str, Any]], settings: DebeziumSettings) -> Shape:
    prefix = settings.flattened
    if not prefix:
        raise SchemaError(
            "the message is flattened (ExtractNewRecordState)", advice="Set debezium.flattened to the value of add.fields.prefix"
        )
    source = _source(settings)
    places = {"op": ("op",), "transaction_id": ("transaction", "id")}
    places |= {"transaction_total_order": ("transaction", "total_order")}
    places |= {name: ("source", one.name) for one in source for name in (one.name, f"source_{one.name}")}
    added = {prefix + name: place for name, place in places.items() if prefix + name in members}
    for needed in (("op",), ("source", "table"), *([] if settings.sequence else [("source", "connector")])):
        if needed not in added.values():
            raise SchemaError(
                f"the message is flattened, but has no field {prefix}{needed[-1]}",
                advice=f"Set add.fields to include {needed[-1]}",
            )
    fields = row_fields({"fields": [member for name, member in members.items() if not name.startswith(prefix)]})
    kinds: dict[tuple[str, ...], pa.DataType] = {("op",): pa.string(), **{("source", one.name): one.type for one in source}}
    kinds |= {("transaction", one.name): one.type for one in _TRANSACTION}
    columns = [(one.name, one.reading_type) for one in fields]
    return Shape(fields, pa.schema([*columns, *((name, kinds[place]) for name, place in added.items())]), added)


def _source(settings: DebeziumSettings) -> pa.StructType:
    """Return the fields of `source` to read; fields that only the setting `sequence` names are integers."""
    others = [(name, pa.int64()) for name in dict.fromkeys(settings.sequence) if name not in SOURCE_FIELDS]
    return pa.struct([*others, *SOURCE_FIELDS.items()])


def _envelope(fields: Sequence[ConnectField], settings: DebeziumSettings) -> pa.Schema:
    row = pa.struct([(one.name, one.reading_type) for one in fields])
    members = [("before", row), ("after", row), ("source", _source(settings)), ("op", pa.string())]
    return pa.schema([*members, ("transaction", _TRANSACTION)])


def in_envelopes(group: MessageGroup, shape: Shape) -> MessageGroup:
    """Return flattened messages as envelopes, and other messages unchanged."""
    if shape.added is None:
        return group
    columns = {name: group.table[name].combine_chunks() for name in group.table.column_names}
    found = {place: columns[name] for name, place in shape.added.items()}
    deleted = pc.fill_null(pc.equal(found["op",], "d"), False)
    names = [one.name for one in shape.fields or ()]

    def struct(section: str, kinds: dict[str, pa.DataType]) -> pa.StructArray:
        parts = [found.get((section, name), pa.nulls(len(deleted), kind)) for name, kind in kinds.items()]
        return pa.StructArray.from_arrays(parts, [*kinds])

    def row(absent: pa.BooleanArray) -> pa.StructArray:
        return pa.StructArray.from_arrays([columns[name] for name in names], names, mask=absent)

    others = {place[1]: array.type for place, array in found.items() if place[0] == "source"}
    table = pa.table(
        {
            "before": row(pc.invert(deleted)),
            "after": row(deleted),
            "source": struct("source", SOURCE_FIELDS | others),
            "op": found["op",],
            "transaction": struct("transaction", {one.name: one.type for one in _TRANSACTION}),
        }
    )
    return replace(group, table=table)


def _read_schema(shape: Shape, lines: pa.BinaryArray, rows: RowNumbers) -> MessageGroup:
    if any(one.has_map for one in shape.fields or ()):
        return in_envelopes(read_each(lines.to_pylist(), rows, shape, _LOAD), shape)
    return in_envelopes(_read_halved(lines, rows, shape), shape)


def _read_halved(lines: pa.BinaryArray, rows: RowNumbers, shape: Shape) -> MessageGroup:
    """Return messages as columns. If Arrow refuses messages, read halves, until few messages remain to be read one by one."""
    table = _read_lines(lines, shape.reading)
    if table is not None:
        return MessageGroup(rows, shape.fields, table)
    if len(rows) <= _READ_ALONE:
        return read_each(lines.to_pylist(), rows, shape, _LOAD)
    middle = len(rows) // 2
    parts = [_read_halved(lines[at:end], rows[at:end], shape) for at, end in ((0, middle), (middle, len(rows)))]
    joined = pa.concat_tables([part.table for part in parts]).combine_chunks()
    return MessageGroup(np.concatenate([part.rows for part in parts]), shape.fields, joined, parts[0].faults | parts[1].faults)


def _read_bare(payloads: pa.BinaryArray, rows: RowNumbers, known: Known, settings: DebeziumSettings) -> Iterator[MessageGroup]:
    """Read messages without a schema, inferring columns and types from all messages."""
    changes = pc.match_substring_regex(payloads, r'"op"\s*:').to_numpy(zero_copy_only=False)
    others = np.flatnonzero(~changes)
    if len(others):
        flat = np.array([_is_bare_row(text) for text in payloads.take(pa.array(others)).to_pylist()])
        yield no_messages(rows[others[flat]], reason="a flattened message without a schema, or not a Debezium message")
        rest = others[~flat]
        yield _read_schema(Shape(None, _OTHERS), payloads.take(pa.array(rest)), rows[rest])
    if changes.any():
        lines, rows = payloads.filter(pa.array(changes)), rows[changes]
        for fields, chosen in _infer(lines, known):
            some = lines.filter(pa.array(chosen))
            yield replace(_read_schema(Shape(fields, _envelope(fields, settings)), some, rows[chosen]), is_inferred=True)


def _is_bare_row(text: bytes) -> bool:
    """Return whether a message without a schema is an object that contains a row's columns."""
    try:
        document = json.loads(text)
    except ValueError:
        return False  # rejected with the reason
    return isinstance(document, dict) and not _is_other(document)


def _infer(lines: pa.BinaryArray, known: Known) -> Iterator[tuple[tuple[ConnectField, ...], npt.NDArray[np.bool_]]]:
    """Yield the columns of messages without a schema, per table in `source`, and the mask of the table's messages."""
    rows: dict[tuple[str, str], list[int]] = {}
    members: dict[tuple[str, str], dict[str, ConnectField]] = {}
    for row, text in enumerate(lines.to_pylist()):
        try:
            document = json.loads(text)
            source = document.get("source") or {}
            table = source.get("schema") or source.get("db") or "", source.get("table") or ""
            if table not in members:
                members[table] = {one.name: one for one in known(*table)}
            for section in ("before", "after"):
                _add_columns(members[table], document.get(section) or {})
        except (ValueError, AttributeError, TypeError):
            table = ("", "")  # read alone, and rejected with the reason
        rows.setdefault(table, []).append(row)
    for table, places in rows.items():
        mask = np.zeros(len(lines), np.bool_)
        mask[places] = True
        yield tuple(members.get(table, {}).values()), mask


def _add_columns(members: dict[str, ConnectField], row: dict[str, Any]) -> None:
    """Add a row's columns to the known columns; integers become DOUBLE if another row has a fraction."""
    for name, value in row.items():
        present = members.get(name)
        if value is None or (present is not None and not (present.type == "int64" and isinstance(value, float))):
            continue
        if present is None or not present.meaning:
            members.update((one.name, one) for one in infer_fields(pa.array([{name: value}]).type))


def _read_lines(lines: pa.BinaryArray, schema: pa.Schema) -> pa.Table | None:
    """Return messages as columns; None if a message does not fit."""
    joined = pc.binary_join_element_wise(lines, b"", b"\n")
    size = max(joined.buffers()[2].size, 1)
    try:
        table = arrow_json.read_json(
            pa.BufferReader(joined.buffers()[2]),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=size + 1),
            parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None
    if table.num_rows != len(lines):
        return None
    return table.select(schema.names).combine_chunks()


def read_each(payloads: Sequence[bytes], rows: RowNumbers, shape: Shape, load: Callable[[bytes], Any]) -> MessageGroup:
    """Return messages as columns, one by one, with faults for messages that do not fit.

    Args:
        rows: The messages' rows in the raw batch.
        load: Returns a message as values in JSON types.
    """
    faults: dict[int, str] = {}
    documents: dict[int, dict[str, Any]] = {}
    types = {one.name: one for one in shape.fields or ()}
    for place, payload in enumerate(payloads):
        try:
            documents[place] = _fit_message(load(payload), types, is_flat=shape.added is not None)
        except (DecodeError, ValueError, TypeError, AttributeError, ArithmeticError) as error:
            faults[int(rows[place])] = f"not a Debezium message: {error}"[:300]
    try:
        table = pa.Table.from_pylist([*documents.values()], schema=shape.reading)
    except (ValueError, TypeError, AttributeError, pa.ArrowException):
        parts = []
        for place, document in [*documents.items()]:
            try:
                parts.append(pa.Table.from_pylist([document], schema=shape.reading))
            except (ValueError, TypeError, AttributeError, pa.ArrowException) as error:
                del documents[place]
                faults[int(rows[place])] = f"not a Debezium message: {error}"[:300]
        table = pa.concat_tables([shape.reading.empty_table(), *parts])
    return MessageGroup(rows[np.array([*documents], np.int64)], shape.fields, table.combine_chunks(), faults)


def _fit_message(document: dict[str, Any], types: Mapping[str, ConnectField], *, is_flat: bool) -> dict[str, Any]:
    if is_flat:
        return {name: fit(types[name], value) if name in types else value for name, value in document.items()}
    for section in ("before", "after"):
        if isinstance(document.get(section), dict):
            document[section] = {name: fit(types[name], value) for name, value in document[section].items() if name in types}
    if isinstance(document.get("source"), dict):
        document["source"] = {
            name: value if pa.types.is_integer(SOURCE_FIELDS.get(name, pa.int64())) else str(value)
            for name, value in document["source"].items()
            if value is not None
        }
    return document


def fit(kind: ConnectField, value: Any) -> Any:
    """Return a JSON value in the reading type of its field."""
    if value is None:
        return None
    if kind.type in ("float", "float32", "double", "float64"):
        return float(value)
    if kind.type == "map":
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)
    if kind.type == "array":
        return [fit(kind.inner[0], item) for item in value]
    if kind.type == "struct":
        return {member.name: fit(member, value.get(member.name)) for member in kind.inner}
    if kind.type == "bytes" and isinstance(value, (int, Decimal)):  # decimal.format = NUMERIC
        number = int(Decimal(value).scaleb(kind.scale))
        return base64.b64encode(number.to_bytes((number.bit_length() + 8) // 8, "big", signed=True)).decode()
    if kind.type == "string" and not isinstance(value, str):
        return json.dumps(value, default=str)
    return value


def read_key(key: bytes) -> dict[str, Any] | None:
    """Return the columns of a JSON record key, or of a header in the same format; None if the value is not an object."""
    try:
        document = json.loads(key, parse_float=Decimal)
    except ValueError:
        return None
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        document = document["payload"]
    return document if isinstance(document, dict) else None
