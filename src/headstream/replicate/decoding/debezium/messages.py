"""Reads Debezium's messages in JSON: many at a time by Arrow's reader, and one by one those that it refuses.

Messages of one schema begin with the same bytes, `{"schema":{..},"payload":`, which are parsed once; what follows is a line of
JSON that Arrow reads into columns. A message that is written in another way (white space, `payload` first) is brought into that
form first. Arrow refuses a batch with one text in a column of numbers, such as "NaN", and does not read
maps: then each message becomes Python's values, and a message that does not fit its schema is rejected alone.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import json as arrow_json

from headstream.errors import SchemaError
from headstream.replicate.decoding.debezium.connect import ConnectField, infer_fields, row_fields
from headstream.replicate.decoding.debezium.order import SOURCE_FIELDS

RowNumbers: TypeAlias = npt.NDArray[np.int64]
_READ_ALONE: Final = 16
_SCHEMA: Final = '{"schema":'
_PAYLOAD: Final = b',"payload":'
_DECODER: Final = json.JSONDecoder()
_TRANSACTION: Final = pa.struct([("id", pa.string()), ("total_order", pa.int64())])
_SOURCE: Final = pa.struct(list(SOURCE_FIELDS.items()))
_OTHERS: Final = pa.schema([("status", pa.string()), ("event_count", pa.int64()), ("id", pa.string())])


@dataclass(frozen=True, slots=True)
class JsonGroup:
    """Messages of one schema.

    Args:
        rows: Their rows in the raw batch; those of `table`.
        fields: The columns of before and after; None for messages that are no envelopes of changes.
        table: before, after, source, op, transaction; or the fields of transaction metadata.
        faults: Row of the raw batch -> the reason why it cannot be read; it is not among `rows`.
        is_inferred: Whether the types of the columns are inferred.
    """

    rows: RowNumbers
    fields: tuple[ConnectField, ...] | None
    table: pa.Table
    faults: dict[int, str] = field(default_factory=dict)
    is_inferred: bool = False


Known: TypeAlias = Callable[[str, str], Sequence[ConnectField]]
"""Source schema and table -> the columns that the table had until now."""


def read_groups(payloads: pa.BinaryArray, rows: RowNumbers, known: Known) -> Iterator[JsonGroup]:
    """Read messages, grouped by their schema.

    Args:
        payloads: Their values, none of them null.
        rows: Their rows in the raw batch.
        known: Finds columns for messages without a schema.
    """
    left = np.arange(len(rows))
    payloads = _in_one_form(payloads)
    with_schema = pc.starts_with(payloads, _SCHEMA).to_numpy(zero_copy_only=False)
    bare = left[~with_schema]
    if len(bare):
        yield from _read_bare(payloads.take(pa.array(bare)), rows[bare], known)
    left = left[with_schema]
    while len(left):
        some = payloads.take(pa.array(left))
        first: bytes = some[0].as_py()
        prefix = _find_prefix(first)
        if prefix is None:
            yield JsonGroup(rows[:0], None, _OTHERS.empty_table(), {int(rows[left[0]]): "not a message of Debezium in JSON"})
            left = left[1:]
            continue
        same = pc.starts_with(some, pattern=prefix).to_numpy(zero_copy_only=False)
        lines = pc.binary_slice(some.filter(pa.array(same)), len(prefix), -1)
        yield _read_schema(_parse_schema(prefix), lines, rows[left[same]])
        left = left[~same]


def _in_one_form(payloads: pa.BinaryArray) -> pa.BinaryArray:
    """Return messages of which those with a schema begin with it, without white space; the text of a payload stays."""
    is_usual = pc.starts_with(payloads, '{"schema":{').to_numpy(zero_copy_only=False)
    if is_usual.all():
        return payloads
    may_have = pc.match_substring_regex(payloads, r'"schema"\s*:').to_numpy(zero_copy_only=False)
    wanted = np.flatnonzero(~is_usual & may_have & pc.match_substring(payloads, '"payload"').to_numpy(zero_copy_only=False))
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
    """Return the text of each member of a JSON object; empty if it is none."""
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
    """Return the place of the next character that is no white space."""
    while text[at] in " \t\r\n":
        at += 1
    return at


def _find_prefix(message: bytes) -> bytes | None:
    """Return what all messages of a schema begin with; None if the message is written in another way."""
    try:
        _, end = _DECODER.raw_decode(message.decode(), len(_SCHEMA))
    except ValueError:
        return None
    prefix = message.decode()[:end].encode() + _PAYLOAD
    return prefix if message.startswith(prefix) and message.endswith(b"}") else None


@lru_cache(maxsize=1000)
def _parse_schema(prefix: bytes) -> tuple[tuple[ConnectField, ...] | None, pa.Schema] | SchemaError:
    """Return the columns of the rows and the schema in which messages are read; or why they cannot be."""
    schema = json.loads(prefix[: -len(_PAYLOAD)] + b"}")["schema"]
    members = {member.get("field"): member for member in (schema or {}).get("fields", ())}
    if "op" not in members or "after" not in members:
        return None, _OTHERS
    try:
        fields = row_fields(members["after"])
    except SchemaError as error:
        return error
    return fields, _envelope(fields)


def _envelope(fields: Sequence[ConnectField]) -> pa.Schema:
    row = pa.struct([(one.name, one.reading_type) for one in fields])
    return pa.schema([("before", row), ("after", row), ("source", _SOURCE), ("op", pa.string()), ("transaction", _TRANSACTION)])


def _read_schema(
    parsed: tuple[tuple[ConnectField, ...] | None, pa.Schema] | SchemaError, lines: pa.BinaryArray, rows: RowNumbers
) -> JsonGroup:
    if isinstance(parsed, SchemaError):
        return JsonGroup(rows[:0], None, _OTHERS.empty_table(), dict.fromkeys(rows.tolist(), str(parsed)))
    fields, schema = parsed
    if any(one.has_map for one in fields or ()):
        return _read_each(lines, rows, fields, schema)
    return _read_halved(lines, rows, fields, schema)


def _read_halved(
    lines: pa.BinaryArray, rows: RowNumbers, fields: tuple[ConnectField, ...] | None, schema: pa.Schema
) -> JsonGroup:
    """Return messages as columns; where Arrow refuses some, halve until few are left to be read alone."""
    table = _read_lines(lines, schema)
    if table is not None:
        return JsonGroup(rows, fields, table)
    if len(rows) <= _READ_ALONE:
        return _read_each(lines, rows, fields, schema)
    middle = len(rows) // 2
    parts = [_read_halved(lines[at:end], rows[at:end], fields, schema) for at, end in ((0, middle), (middle, len(rows)))]
    joined = pa.concat_tables([part.table for part in parts]).combine_chunks()
    return JsonGroup(np.concatenate([part.rows for part in parts]), fields, joined, parts[0].faults | parts[1].faults)


def _read_bare(payloads: pa.BinaryArray, rows: RowNumbers, known: Known) -> Iterator[JsonGroup]:
    """Read messages without a schema; which columns there are, and their types, are what all of them have."""
    changes = pc.match_substring_regex(payloads, r'"op"\s*:').to_numpy(zero_copy_only=False)
    if not changes.all():
        yield _read_schema((None, _OTHERS), payloads.filter(pa.array(~changes)), rows[~changes])
    if changes.any():
        lines, rows = payloads.filter(pa.array(changes)), rows[changes]
        for member in _infer(lines, known):
            some = lines.filter(pa.array(member.rows))
            group = _read_schema((member.fields, _envelope(member.fields)), some, rows[member.rows])
            yield JsonGroup(group.rows, group.fields, group.table, group.faults, is_inferred=True)


@dataclass(frozen=True, slots=True)
class _Inferred:
    rows: npt.NDArray[np.bool_]
    fields: tuple[ConnectField, ...]


def _infer(lines: pa.BinaryArray, known: Known) -> list[_Inferred]:
    """Return the columns of messages without a schema, by the table that their `source` names."""
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
    found = []
    for table, places in rows.items():
        mask = np.zeros(len(lines), np.bool_)
        mask[places] = True
        found.append(_Inferred(mask, tuple(members.get(table, {}).values())))
    return found


def _add_columns(members: dict[str, ConnectField], row: dict[str, Any]) -> None:
    """Add the columns of a row to those that are known; whole numbers become DOUBLE where another row has a fraction."""
    for name, value in row.items():
        present = members.get(name)
        if value is None or (present is not None and not (present.type == "int64" and isinstance(value, float))):
            continue
        if present is None or not present.meaning:
            members.update((one.name, one) for one in infer_fields(pa.array([{name: value}]).type))


def _read_lines(lines: pa.BinaryArray, schema: pa.Schema) -> pa.Table | None:
    """Return messages as columns; None if one of them does not fit."""
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


def _read_each(lines: pa.BinaryArray, rows: RowNumbers, fields: tuple[ConnectField, ...] | None, schema: pa.Schema) -> JsonGroup:
    """Return messages as columns, without those that do not fit."""
    types = {one.name: one for one in fields or ()}
    faults: dict[int, str] = {}
    good: list[int] = []
    parts: list[pa.Table] = []
    for place, line in enumerate(lines.to_pylist()):
        try:
            document = json.loads(line, parse_float=Decimal)
            for section in ("before", "after"):
                if isinstance(document.get(section), dict):
                    document[section] = {
                        name: fit(types[name], value) for name, value in document[section].items() if name in types
                    }
            if isinstance(document.get("source"), dict):
                document["source"] = {
                    name: value if value is None or pa.types.is_integer(kind) else str(value)
                    for name, kind in SOURCE_FIELDS.items()
                    if (value := document["source"].get(name)) is not None
                }
            parts.append(pa.Table.from_pylist([document], schema=schema))
            good.append(place)
        except (ValueError, TypeError, AttributeError, ArithmeticError, pa.ArrowException) as error:
            faults[int(rows[place])] = f"not a message of Debezium: {error}"[:300]
    table = pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()
    return JsonGroup(rows[np.array(good, np.int64)], fields, table, faults)


def fit(kind: ConnectField, value: Any) -> Any:
    """Return a JSON value as one of its field's reading type."""
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
    """Return the columns of a record key in JSON, or of a header that has the form of one; None if it is no object."""
    try:
        document = json.loads(key, parse_float=Decimal)
    except ValueError:
        return None
    if isinstance(document, dict) and document.keys() == {"schema", "payload"}:
        document = document["payload"]
    return document if isinstance(document, dict) else None
