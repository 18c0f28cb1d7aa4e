"""Decodes Debezium's messages beside Replicate's, ten columns each, on one core; results in results/debezium.txt.

python -m bench.debezium [--quick]
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from bench.machine import Report, run_benchmark
from headstream.replicate.codec import Change, ColumnMetadata, Lineage, TableMetadata, data_message, data_schema
from headstream.replicate.decoding.decode import Decoder
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.schemas.schema_catalog import DecodeOptions
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema
from headstream.replicate.settings.debezium_settings import DebeziumSettings

_TYPES = ("int64", "string", "int32", "double", "string", "boolean", "int64", "string", "double", "string")
_REPLICATES = {"int64": "INT8", "string": "WSTRING", "int32": "INT4", "double": "REAL8", "boolean": "BOOLEAN"}
_FIELDS = [{"type": kind, "optional": number > 0, "field": f"c{number}"} for number, kind in enumerate(_TYPES)]
_COLUMNS = tuple(
    ColumnMetadata(f"c{number}", number + 1, _REPLICATES[kind], primary_key_position=int(not number))
    for number, kind in enumerate(_TYPES)
)


def _row(number: int) -> dict[str, Any]:
    values = {
        "int64": number,
        "string": f"text {number}",
        "int32": number % 1000,
        "double": number / 7,
        "boolean": number % 2 == 0,
    }
    return {f"c{place}": values[kind] for place, kind in enumerate(_TYPES)}


def _envelope(number: int, *, schema: bool) -> bytes:
    source = {"connector": "postgresql", "name": "shop", "ts_ms": 1, "snapshot": "false", "schema": "public", "table": "kit"}
    source |= {"lsn": number + 10, "sequence": f'["{number + 1}","{number + 10}"]'}
    payload = {"before": None, "after": _row(number), "source": source, "op": "u", "ts_ms": 2, "transaction": None}
    row = {"type": "struct", "fields": _FIELDS, "optional": True}
    members = [{**row, "field": "before"}, {**row, "field": "after"}, {"type": "string", "field": "op"}]
    document = {"schema": {"type": "struct", "fields": members}, "payload": payload} if schema else payload
    return json.dumps(document, separators=(",", ":")).encode()


def _raw(values: list[bytes]) -> pa.RecordBatch:
    count = len(values)
    keys = [json.dumps({"c0": number}).encode() for number in range(count)]
    columns: list[Any] = [
        pa.array(["shop/kit"] * count), pa.array([0] * count, pa.int32()), pa.array(range(count), pa.int64()),
        pa.array([0] * count, pa.int64()), pa.array(keys, pa.binary()), pa.array([b""] * count, pa.binary()),
        pa.array(values, pa.binary()),
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(
        columns, names=["topic", "partition", "offset", "timestamp_us", "key", "headers", "payload"]
    )


def _measure(name: str, raw: pa.RecordBatch, decode: Callable[[pa.RecordBatch], Decoded], report: Report) -> None:
    seconds = []
    for _ in range(5):
        begun = time.process_time()
        decoded = decode(raw)
        seconds.append(time.process_time() - begun)
        assert decoded.rows_in_driver == raw.num_rows, name
    rate = raw.num_rows / statistics.median(seconds)
    report.line(
        f"{name:44} {rate / 1000:8.0f} thousand messages/s, {raw.column('payload').nbytes / raw.num_rows:6.0f} bytes each"
    )


def _measure_all(report: Report, directory: Path, *, quick: bool) -> None:
    count = 5_000 if quick else 50_000
    table = TableMetadata("E" * 32, Lineage("s", "t", "public", "kit"), _COLUMNS, data_schema(_COLUMNS, logical_types=True))
    changes = [Change("UPDATE", _row(number), None, f"{number:035d}") for number in range(count)]
    schema_store = SchemaStore(directory / "replicate")
    schema_store.add(StoredSchema(table, 1, "cdc/metadata", 0, 0))
    replicate = Decoder(schema_store, DecodeOptions())
    debezium = Decoder(SchemaStore(directory / "debezium"), DecodeOptions(debezium=DebeziumSettings()))
    _measure("Replicate, Avro", _raw([data_message(table, one) for one in changes]), replicate.decode, report)
    _measure("Replicate, JSON", _raw([data_message(table, one, form="json") for one in changes]), replicate.decode, report)
    values = [_envelope(number, schema=True) for number in range(count)]
    _measure("Debezium, JSON with schemas", _raw(values), debezium.decode, report)
    values[7] = values[7].replace(b'"c3":1.0', b'"c3":"NaN"')
    _measure("Debezium, the same, with one NaN", _raw(values), debezium.decode, report)
    values = [_envelope(number, schema=False) for number in range(count)]
    _measure("Debezium, JSON without schemas", _raw(values), debezium.decode, report)


if __name__ == "__main__":
    with run_benchmark("debezium", __doc__, "5,000 messages") as (report, directory, is_quick):
        _measure_all(report, directory, quick=is_quick)
