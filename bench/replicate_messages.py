"""What the benchmarks of Replicate read: tables of ten or more columns, changes as envelopes, as decoded columns and as rows.

Envelopes are put together from pieces that fastavro wrote, an Avro library that has nothing to do with ours: a million of them
is made in seconds.
"""

from __future__ import annotations

import io
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import write_deltalake

from headstream.connect import connect
from headstream.replicate.codec import ColumnMetadata, Lineage, TableMetadata, data_schema, metadata_message, target_type
from headstream.replicate.columns.changes import BOOKKEEPING, OLD_PREFIX, OPERATIONS
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.settings.config import ReplicateConfig

KINDS: Final = ["INT8", "INT4", "WSTRING", "NUMERIC", "DATE", "DATETIME", "REAL8", "BOOLEAN", "STRING", "INT2"]
ROWS_OF_A_FILE: Final = 200_000

ENVELOPE_SCHEMA: Final = """{"type":"record","name":"MessageEnvelope","fields":[
{"name":"magic","type":{"type":"fixed","name":"Magic","size":5}},
{"name":"type","type":"string"},
{"name":"headers","type":["null",{"type":"map","values":"string"}]},
{"name":"messageSchemaId","type":["null","string"]},{"name":"messageSchema","type":["null","string"]},
{"name":"message","type":"bytes"}]}"""
"""The envelope with its magic, as a hand-written consumer has it."""
_ENVELOPE: Final = fastavro.parse_schema(json.loads(ENVELOPE_SCHEMA))
_MAGIC: Final = b"atMSG"
_NULL: Final = b"\x00"
_SOME: Final = b"\x02"
"""Of null or a value: a value."""
_OTHER_HEADERS: Final = {
    "timestamp": "2023-03-21T21:34:16.000",
    "streamPosition": "pos",
    "transactionId": f"{1:032X}",
    "changeMask": None,
    "columnMask": None,
    "transactionEventCounter": 1,
    "transactionLastEvent": True,
}
CYCLE: Final = 1000
"""After so many changes the values of a row repeat, but for the name, which follows the change, and the text."""


def make_table(number: int, *, has_key: bool = True, columns: int = 10) -> TableMetadata:
    """Return a table of ten columns, one of each common type, or of a multiple of that; the first is its key."""
    made = tuple(
        ColumnMetadata(
            f"c{i}", i + 1, kind, 40, 18 if kind == "NUMERIC" else 0, 4 if kind == "NUMERIC" else 0, int(i == 0 and has_key)
        )
        for i, kind in enumerate(KINDS * (columns // len(KINDS)))
    )
    lineage = Lineage("server", "task", "shop", f"table{number}", 1, "")
    return TableMetadata(f"{number:032X}", lineage, made, data_schema(made, logical_types=True))


def make_sequence(at: int) -> str:
    """Return a change sequence, rising with `at`."""
    return f"2023032121341658{at:019d}"


def make_values(key: int, at: int) -> list[Any]:
    """Return the ten values of a row."""
    part = at % CYCLE
    day = date(2020, 1, 1) + timedelta(days=part)
    moment = datetime(2023, 3, 21, 21, 34, part % 60, tzinfo=UTC)
    return [key, part, f"name {at}", Decimal(part) / 10000, day, moment, part / 7, part % 2 == 0, f"text {key}", part % 100]


def mix(count: int) -> list[str]:
    """Return operations, 80 % updates, 10 % inserts and 10 % deletes."""
    return ["DELETE" if n % 10 == 0 else "INSERT" if n % 10 == 1 else "UPDATE" for n in range(count)]


def load_then_mix(rows: int, changes: int) -> tuple[list[tuple[str, int, int]], list[tuple[str, int, int]]]:
    """Return inserts of new keys, and then changes of keys anywhere among them: the verb, the key and the place of each.

    Args:
        rows: How many inserts; their keys and places are from 0 on.
        changes: How many changes, no two of one key, at most as many as rows; their inserts have new keys.
    """
    new = iter(range(rows, rows + changes))
    keys = random.Random(1).sample(range(rows), changes)
    mixed = zip(mix(changes), keys, strict=True)
    changed = [(verb, next(new) if verb == "INSERT" else key, rows + at) for at, (verb, key) in enumerate(mixed)]
    return [("INSERT", key, key) for key in range(rows)], changed


class Envelopes:
    """Writes the data messages of one table.

    Args:
        table: Whose.
        partial: Whether updates carry the key and the name alone.
    """

    def __init__(self, table: TableMetadata, *, partial: bool = False) -> None:
        schema = json.loads(table.data_schema)
        self._columns = {field["name"]: field["type"] for field in schema["fields"][0]["type"]["fields"]}
        self._headers = {field["name"]: field["type"] for field in schema["fields"][2]["type"]["fields"]}
        # Everything of the envelope but the message comes out the same each time.
        empty = {"magic": _MAGIC, "type": "DT", "headers": None, "messageSchemaId": table.schema_id, "messageSchema": None}
        self._before = _write(_ENVELOPE, {**empty, "message": b""})[:-1]
        groups = len(table.columns) // len(KINDS)
        self._pieces = [self._fixed_columns(make_values(0, at) * groups) for at in range(CYCLE)]
        # No row before; then the verb and what follows each change sequence.
        self._verbs = {verb: b"\x00" + self._header("operation", verb) for verb in OPERATIONS}
        self._after = self._headers_with((1 << len(table.columns)) - 1)
        self._after_part = self._headers_with(0b101) if partial else b""
        self._whole = b"".join(self._header(name, mask) for name, mask in (("changeMask", None), ("columnMask", self._mask())))
        self._position = b"".join(self._header(name, _OTHER_HEADERS[name]) for name in ("timestamp", "streamPosition"))

    def write(
        self, operation: str, key: int, at: int, *, sequence: str | None = None, transaction: tuple[int, int, bool] | None = None
    ) -> bytes:
        """Return a data message with every column, except of partial updates.

        Args:
            operation: The verb.
            key: The row.
            at: The change's place in the order of all.
            sequence: Its change sequence; by default made from `at`.
            transaction: Number of its transaction, number in it, and whether it is the last, of changes with every column; by
                default all changes are the only one of transaction 1.
        """
        first, middle, last = self._pieces[at % CYCLE]
        name, text = _text(f"name {at}"), _text(f"text {key}")
        order = _text(make_sequence(at) if sequence is None else sequence)
        if operation == "UPDATE" and self._after_part:
            parts = [
                _SOME,
                _long(key),
                _NULL,
                _SOME,
                name,
                _NULL * (len(self._columns) - 3),
                self._verbs[operation],
                order,
                self._after_part,
            ]
        else:
            parts = [_SOME, _long(key), first, _SOME, name, middle, _SOME, text, last]
            parts += [self._verbs[operation], order, self._after if transaction is None else self._of_transaction(*transaction)]
        body = b"".join(parts)
        return b"".join((self._before, _long(len(body)), body))

    def _fixed_columns(self, values: list[Any]) -> tuple[bytes, bytes, bytes]:
        """Return the columns that repeat: those between key and name, between name and text, and after the text."""
        written = [_write(self._columns[f"c{i}"], value) for i, value in enumerate(values)]
        return written[1], b"".join(written[3:8]), b"".join(written[9:])

    def _of_transaction(self, number: int, event: int, last: bool) -> bytes:
        """Return the headers after the change sequence, of a change with every column."""
        ends = [_SOME, _long(event), _SOME, b"\x01" if last else b"\x00"]
        return b"".join([self._position, _text(f"{number:032X}"), self._whole, *ends])

    def _mask(self, columns: int | None = None) -> bytes:
        """Return the mask of the columns that a change carries, whose bits are set; by default of all."""
        carried = (1 << len(self._columns)) - 1 if columns is None else columns
        return carried.to_bytes((len(self._columns) + 7) // 8, "little")

    def _headers_with(self, columns: int) -> bytes:
        """Return the headers after the change sequence; of the columns that a change carries, the bits are set."""
        mask = self._mask(columns)
        return b"".join(self._header(name, mask if name == "columnMask" else value) for name, value in _OTHER_HEADERS.items())

    def _header(self, name: str, value: Any) -> bytes:
        return _write(self._headers[name], value)


def _write(schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return buffer.getvalue()


def _long(value: int) -> bytes:
    number, written = value << 1, bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def _text(value: str) -> bytes:
    return _long(len(value)) + value.encode()


def raw_batches(values: list[bytes], batch_rows: int = 10_000) -> Iterator[pa.RecordBatch]:
    """Iterate over messages as the decoder gets them from Spark."""
    for first in range(0, len(values), batch_rows):
        part = values[first : first + batch_rows]
        columns: dict[str, Any] = {
            "topic": pa.array(["cdc/data"] * len(part)),
            "partition": pa.array([1] * len(part), pa.int32()),
            "offset": pa.array(range(first, first + len(part)), pa.int64()),
            "timestamp_us": pa.array([0] * len(part), pa.int64()),
            "key": pa.array([None] * len(part), pa.binary()),
            "headers": pa.array([b""] * len(part), pa.binary()),
            "payload": pa.array(part, pa.binary()),
        }
        yield pa.RecordBatch.from_pydict(columns)


def make_log(url: str, tables: Iterable[TableMetadata]) -> None:
    """Make a log with the topics of a pipeline and the metadata of some tables."""
    with connect(url) as log:
        log.create_topic("cdc/data", partitions=2)
        log.create_topic("cdc/metadata")
        with log.producer("cdc/metadata") as producer:
            for table in tables:
                producer.send(metadata_message(table))


def send(url: str, values: Iterable[bytes]) -> None:
    """Send data messages."""
    with connect(url) as log, log.producer("cdc/data") as producer:
        for number, value in enumerate(values):
            producer.send(value, key=b"%d" % number)


def make_config(work: Path, name: str = "tables", **more: Any) -> ReplicateConfig:
    """Return the settings of a pipeline that reads what send() has sent to `work/log`, for tables at `work/name`."""
    return ReplicateConfig(
        source=(work / "log").as_uri(),
        topics=("cdc/data",),
        metadata=("cdc/metadata",),
        tables=work / name,
        checkpoint=work / f"{name}-checkpoint",
        **more,
    )


def write_merge(path: Path, key: str, columns: Sequence[str]) -> str:
    """Return the SQL of a hand-written MERGE of the view `changes` into a Delta table."""
    sets, values = ", ".join(f"t.{name} = s.{name}" for name in columns), ", ".join(f"s.{name}" for name in columns)
    return (
        f"MERGE INTO delta.`{path}` t USING changes s ON t.{key} = s.{key} WHEN MATCHED AND s._hs_delete THEN DELETE "
        f"WHEN MATCHED AND s._hs_sequence > t._hs_sequence THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND NOT s._hs_delete THEN INSERT ({', '.join(columns)}) VALUES ({values})"
    )


def table_types() -> dict[str, str]:
    """Return the columns of every table here and their Spark types."""
    return {column.name: target_type(column) for column in make_table(0).columns}


def change_batch(operations: list[str], keys: list[int], at: int) -> pa.Table:
    """Return decoded changes of such a table, as collapse() takes them."""
    fields = [pa.field(name, arrow_type(kind)) for name, kind in table_types().items()]
    schema = pa.schema([*fields, *BOOKKEEPING, pa.field(f"{OLD_PREFIX}c0", pa.int64())])
    count = len(keys)
    rows = (make_values(key, at + n) for n, key in enumerate(keys))
    columns: dict[str, Any] = {f"c{i}": values for i, values in enumerate(zip(*rows, strict=True))}
    columns["_hs_operation"] = [OPERATIONS.index(operation) for operation in operations]
    columns["_hs_sequence"] = ["" if operations[n] == "REFRESH" else make_sequence(at + n) for n in range(count)]
    columns |= {"_hs_columns": [None] * count, "_hs_topic": ["t"] * count, "_hs_partition": [1] * count}
    columns |= {field.name: [None] * count for field in BOOKKEEPING if field.name not in columns}
    columns |= {"_hs_offset": range(count), f"{OLD_PREFIX}c0": [None] * count}
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in schema}, schema=schema)


def fill_table(path: Path, rows: int) -> None:
    """Make a target table that has the rows 0, 1, 2 … already, ROWS_OF_A_FILE a file."""
    for first in range(0, rows, ROWS_OF_A_FILE):
        write_deltalake(str(path), _stored_rows(np.arange(first, min(first + ROWS_OF_A_FILE, rows))), mode="append")


def _stored_rows(keys: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
    numbers = pa.array(keys)
    texts = numbers.cast(pa.string())
    columns = {
        "c0": numbers,
        "c1": pc.cast(pa.array(keys % 1000), pa.int32()),
        "c2": pc.binary_join_element_wise("name", texts, " "),
        "c3": pa.array([Decimal(n) / 10000 for n in range(CYCLE)], pa.decimal128(18, 4)).take(pa.array(keys % CYCLE)),
        "c4": pa.array((18_262 + keys % 1000).astype(np.int32)).cast(pa.date32()),
        "c5": pa.array(1_679_434_440_000_000 + keys % 60 * 1_000_000).cast(pa.timestamp("us", "UTC")),
        "c6": pa.array(keys / 7),
        "c7": pa.array(keys % 2 == 0),
        "c8": pc.binary_join_element_wise("text", texts, " "),
        "c9": pc.cast(pa.array(keys % 100), pa.int16()),
        "_hs_sequence": pa.repeat(".1690000000000000", len(keys)),
        "_hs_versions": pa.nulls(len(keys), pa.string()),
    }
    return pa.table(columns)
