"""Decodes and applies Debezium's messages beside Replicate's, ten columns each; results in results/debezium.txt.

decode   on one core, in processor time
apply    a whole run of a pipeline into one Delta table, local[2]: inserts of new rows, then updates of all of them; two runs
         after a small one
cases    changes that pipelines often get wrong (change_cases.py), as Debezium's messages

python -m bench.debezium [--quick]      takes less than three minutes
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from bench.change_cases import CASES, run_cases
from bench.machine import Report, run_benchmark
from headstream import connect
from headstream.replicate.codec import Change, ColumnMetadata, Lineage, TableMetadata, data_message, data_schema, metadata_message
from headstream.replicate.decoding.decode import Decoder
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.run.pipeline import ReplicatePipeline
from headstream.replicate.schemas.schema_catalog import DecodeOptions
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.debezium_settings import DebeziumSettings
from headstream.spark import session, stop

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


def _envelope(number: int, *, schema: bool, at: int | None = None) -> bytes:
    at = number if at is None else at
    source = {"connector": "postgresql", "name": "shop", "ts_ms": 1, "snapshot": "false", "schema": "public", "table": "kit"}
    source |= {"lsn": at + 10, "sequence": f'["{at + 1}","{at + 10}"]'}
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


def _apply(
    name: str,
    spark: SparkSession,
    place: Path,
    messages: list[tuple[bytes, bytes]],
    metadata: bytes | None,
    report: Report | None,
) -> None:
    """Apply messages, key and value, in a pipeline of their own; without a report to warm Spark up."""
    url = (place / "log").as_uri()
    with connect(url) as log:
        for topic in ("shop/kit", "shop/metadata"):
            log.create_topic(topic, limits="wide")
        with log.producer("shop/kit") as producer:
            for key, value in messages:
                producer.send(value, key=key)
        if metadata is not None:
            log.send("shop/metadata", metadata)
    config = ReplicateConfig(
        source=url,
        topics=("shop/kit",),
        metadata=() if metadata is None else ("shop/metadata",),
        debezium=DebeziumSettings() if metadata is None else None,
        tables=place / "tables",
        checkpoint=place / "checkpoint",
        max_messages_per_batch=100_000,
        once=True,
    )
    begun = time.perf_counter()
    summary = ReplicatePipeline(spark, config).run()
    seconds = time.perf_counter() - begun
    assert (summary.changes, summary.dead, summary.parked) == (len(messages), 0, 0), summary
    if report is not None:
        report.line(f"apply: {name:37} {len(messages) / seconds / 1000:8.0f} thousand changes/s, {seconds:6.1f} s")


def _apply_all(report: Report, directory: Path, table: TableMetadata, *, quick: bool) -> None:
    count = 2_000 if quick else 30_000
    spark = session("bench-debezium", master="local[2]")
    order = [
        *((number, "INSERT", number) for number in range(count)),
        *((number, "UPDATE", count + number) for number in range(count)),
    ]
    keys = [json.dumps({"c0": number}).encode() for number in range(count)]
    changes = [(keys[number], Change(verb, _row(number), None, f"{at:035d}")) for number, verb, at in order]
    ways: dict[str, tuple[list[tuple[bytes, bytes]], bytes | None]] = {
        "Replicate, Avro": ([(key, data_message(table, one)) for key, one in changes], metadata_message(table)),
        "Replicate, JSON": ([(key, data_message(table, one, form="json")) for key, one in changes], metadata_message(table)),
        "Debezium, JSON with schemas": ([(keys[number], _envelope(number, schema=True, at=at)) for number, _, at in order], None),
    }
    for name, (messages, metadata) in ways.items():
        _apply(name, spark, directory / f"warm {name}", messages[:1000], metadata, None)
        for run in range(2):
            _apply(name, spark, directory / f"{name} {run}", messages, metadata, report)
    for case, found in zip(CASES, run_cases(spark, directory / "cases", debezium=True), strict=True):
        report.line(f"case: {case.title:60} {found}")
    stop(spark)


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
    _apply_all(report, directory, table, quick=quick)


if __name__ == "__main__":
    with run_benchmark("debezium", __doc__, "5,000 messages") as (report, directory, is_quick):
        _measure_all(report, directory, quick=is_quick)
