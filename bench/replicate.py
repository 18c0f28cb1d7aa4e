"""Envelopes to rows and rows to tables, side by side in one run; results in results/replicate.txt.

decode     the decoder's one pass (compiled) against fastavro, a message at a time, 1 and 30 schema ids
merge      100,000 changes into 1,000,000 rows: the pipeline's merge against Spark's own MERGE of the same changes
pipeline   envelopes in a log to Delta tables: decode, collapse and merge, all in
"""

from __future__ import annotations

import argparse
import io
import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from deltalake import DeltaTable

from bench.machine import Report
from headstream.codec.replicate import (
    Change,
    ColumnMetadata,
    Lineage,
    TableMetadata,
    data_message,
    data_schema,
    decode_envelope,
    decode_metadata,
    metadata_message,
    target_type,
)
from headstream.connect import connect
from headstream.spark.replicate.apply.deltalake import DeltaLakeEngine
from headstream.spark.replicate.apply.mapped import SparkMappedTables
from headstream.spark.replicate.apply.scd1 import Scd1Table
from headstream.spark.replicate.apply.tombstones import Tombstones
from headstream.spark.replicate.changes import BOOKKEEPING, OLD_PREFIX, OPERATIONS, collapse
from headstream.spark.replicate.config import ReplicateConfig
from headstream.spark.replicate.conversion import arrow_type
from headstream.spark.replicate.decode import Decoder
from headstream.spark.replicate.pipeline import ReplicatePipeline
from headstream.spark.replicate.zone import SchemaZone, ZoneEntry
from headstream.spark.session import session, stop

KINDS = ["INT8", "INT4", "WSTRING", "NUMERIC", "DATE", "DATETIME", "REAL8", "BOOLEAN", "STRING", "INT2"]
BATCH_ROWS = 10_000


def make_table(number: int) -> TableMetadata:
    """A table of ten columns, one of each common type."""
    columns = tuple(
        ColumnMetadata(f"c{i}", i + 1, kind, 40, 18 if kind == "NUMERIC" else 0, 4 if kind == "NUMERIC" else 0, int(i == 0))
        for i, kind in enumerate(KINDS)
    )
    lineage = Lineage("server", "task", "shop", f"table{number}", 1, "")
    return TableMetadata(f"{number:032X}", lineage, columns, data_schema(columns, logical_types=True))


def make_change(operation: str, key: int, at: int) -> Change:
    """A change of one row, every column present."""
    data: dict[str, Any] = {f"c{i}": value for i, value in enumerate(make_values(key, at))}
    moment, transaction = f"2023-03-21T21:{at // 60 % 60:02d}:{at % 60:02d}.000", f"{at:032X}"
    return Change(operation, data, None, make_sequence(at), moment, "pos", transaction, None, b"\xff\x03", 1, True, None)


def make_sequence(at: int) -> str:
    """A change sequence."""
    return f"2023032121341658{at:019d}"


def make_values(key: int, at: int) -> list[Any]:
    """The ten values of a row."""
    day = date(2020, 1, 1) + timedelta(days=at % 1000)
    moment = datetime(2023, 3, 21, 21, 34, at % 60, tzinfo=UTC)
    return [key, at % 1000, f"name {at}", Decimal(at) / 10000, day, moment, at / 7, at % 2 == 0, f"text {key}", at % 100]


def make_message(table: TableMetadata, operation: str, key: int, at: int) -> bytes:
    """A data message."""
    return data_message(table, make_change(operation, key, at), schema_id=table.schema_id)


def raw_batches(values: list[bytes]) -> list[pa.RecordBatch]:
    """Messages as the decoder gets them from Spark: 10,000 a batch."""
    batches = []
    for first in range(0, len(values), BATCH_ROWS):
        part = values[first : first + BATCH_ROWS]
        columns: dict[str, Any] = {
            "topic": pa.array(["cdc/data"] * len(part)),
            "partition": pa.array([1] * len(part), pa.int32()),
            "offset": pa.array(range(first, first + len(part)), pa.int64()),
            "timestamp_us": pa.array([0] * len(part), pa.int64()),
            "key": pa.array([None] * len(part), pa.binary()),
            "headers": pa.array([b""] * len(part), pa.binary()),
            "payload": pa.array(part, pa.binary()),
        }
        batches.append(pa.RecordBatch.from_pydict(columns))
    return batches


def median_seconds(*works: Callable[[], object], rounds: int) -> list[float]:
    """The median of each work's time, the works alternating."""
    times: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, taken in zip(works, times, strict=True):
            began = time.perf_counter()
            work()
            taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]


def bench_decode(report: Report, directory: Path, count: int) -> None:
    """One pass over envelopes of 1 and of 30 schema ids."""
    envelope_schema = fastavro.parse_schema(json.loads(_ENVELOPE))
    for ids in (1, 30):
        tables = [make_table(number) for number in range(ids)]
        zone = SchemaZone(directory / f"zone{ids}")
        for table in tables:
            zone.add(ZoneEntry(decode_metadata(decode_envelope(metadata_message(table))), 0, "t", 1, 0))
        some = [
            data_message(tables[i % ids], make_change("INSERT", i, i), schema_id=tables[i % ids].schema_id) for i in range(3000)
        ]
        values = (some * (count // len(some) + 1))[:count]
        batches = raw_batches(values)
        schemas = {table.schema_id: fastavro.parse_schema(json.loads(table.data_schema)) for table in tables}
        few = values[: count // 50]

        def ours(zone: SchemaZone = zone, batches: list[pa.RecordBatch] = batches) -> None:
            decoder = Decoder(zone)
            for batch in batches:
                assert not decoder.decode(batch).dead

        def theirs(few: list[bytes] = few, schemas: dict[str, Any] = schemas) -> None:
            for value in few:
                envelope: Any = fastavro.schemaless_reader(io.BytesIO(value), envelope_schema)
                fastavro.schemaless_reader(io.BytesIO(envelope["message"]), schemas[envelope["messageSchemaId"]])

        ours_s, theirs_s = median_seconds(ours, theirs, rounds=5)
        rate, other = count / ours_s, len(few) / theirs_s
        compared = f"{rate / 1e6:.2f} M rows/s; fastavro {other / 1e6:.3f}; {rate / other:.0f} x"
        report.line(f"decode, 10 columns, {ids:2d} schema ids, one core: {compared}")


def change_batch(operations: list[str], keys: list[int], at: int) -> pa.Table:
    """Decoded changes of make_table(0), as collapse() takes them."""
    types = {column.name: target_type(column) for column in make_table(0).columns}
    fields = [pa.field(name, arrow_type(kind)) for name, kind in types.items()]
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


def bench_merge(report: Report, directory: Path, spark: Any, rows: int, changes: int) -> None:
    """Updates, inserts and deletes into a large table, clustered and random keys."""
    table = make_table(0)
    types = {column.name: target_type(column) for column in table.columns}
    engine = DeltaLakeEngine(directory / "merged", SparkMappedTables(spark))
    target = Scd1Table(engine, ["c0"], Tombstones(directory / "tombstones", ["c0"]))
    target.prepare(types)
    for first in range(0, rows, 200_000):
        keys = list(range(first, min(first + 200_000, rows)))
        target.merge(collapse(change_batch(["REFRESH"] * len(keys), keys, 0), table, list(types)), "load", first)
    twin = directory / "spark"
    shutil.copytree(directory / "merged", twin)
    rng = random.Random(1)
    kinds = [("DELETE" if n % 10 == 0 else "INSERT" if n % 10 == 1 else "UPDATE") for n in range(changes)]
    for version, name in enumerate(("clustered", "random"), 1):
        keys = list(range(rows // 2, rows // 2 + changes)) if name == "clustered" else rng.sample(range(rows), changes)
        keys = [version * rows + key if kind == "INSERT" else key for key, kind in zip(keys, kinds, strict=True)]
        batch = change_batch(kinds, keys, version * 10_000_000)
        began = time.perf_counter()
        collapsed = collapse(batch, table, list(types))
        collapse_s = time.perf_counter() - began
        began = time.perf_counter()
        counts = target.merge(collapsed, "bench", version)
        ours = time.perf_counter() - began
        theirs = spark_merge_seconds(spark, twin, collapsed.changes, [*types, "_hs_sequence"])
        report.line(
            f"merge, {changes:,} changes into {rows:,} rows, {name} keys: {ours:.2f} s (and {collapse_s:.2f} s to one change a "
            f"key); Spark MERGE {theirs:.2f} s; {theirs / ours:.1f} x   "
            f"({counts.updated:,} updated, {counts.inserted:,} inserted, {counts.deleted:,} deleted)"
        )
    merged = DeltaTable(str(directory / "merged")).to_pyarrow_table(columns=["c0"]).num_rows
    assert merged == spark.read.format("delta").load(str(twin)).count()


def spark_merge_seconds(spark: Any, path: Path, changes: pa.Table, columns: list[str]) -> float:
    """How long Spark's own MERGE of the same changes takes."""
    spark.createDataFrame(changes).createOrReplaceTempView("changes")
    sets = ", ".join(f"t.{name} = s.{name}" for name in columns)
    names, values = ", ".join(columns), ", ".join(f"s.{name}" for name in columns)
    began = time.perf_counter()
    spark.sql(
        f"MERGE INTO delta.`{path}` t USING changes s ON t.c0 = s.c0 WHEN MATCHED AND s._hs_delete THEN DELETE "
        f"WHEN MATCHED AND s._hs_sequence > t._hs_sequence THEN UPDATE SET {sets} "
        f"WHEN NOT MATCHED AND NOT s._hs_delete THEN INSERT ({names}) VALUES ({values})"
    )
    return time.perf_counter() - began


def bench_pipeline(report: Report, directory: Path, spark: Any, count: int) -> None:
    """Envelopes in a log to Delta tables: inserts alone, then updates of the same rows."""
    url = f"file://{directory / 'log'}"
    tables = [make_table(number) for number in range(4)]
    with connect(url) as log:
        log.create_topic("cdc/data", partitions=2)
        log.create_topic("cdc/metadata")
        with log.producer("cdc/metadata") as producer:
            for table in tables:
                producer.send(metadata_message(table))
    pipeline: dict[str, Any] = {"source": url, "topics": ("cdc/data",), "metadata": ("cdc/metadata",), "once": True}
    pipeline |= {"tables": directory / "tables", "checkpoint": directory / "checkpoint"}
    ReplicatePipeline(spark, ReplicateConfig(**pipeline)).run()  # the schemas, and Spark's own warming up
    for number, operation in enumerate(("INSERT", "UPDATE")):
        with connect(url) as log, log.producer("cdc/data") as producer:
            for i in range(count):
                producer.send(
                    data_message(table, make_change(operation, i, number * count + i), schema_id=table.schema_id), key=b"%d" % i
                )
        began = time.perf_counter()
        summary = ReplicatePipeline(spark, ReplicateConfig(**pipeline)).run()
        seconds = time.perf_counter() - began
        assert summary.changes == count
        report.line(
            f"pipeline, {count:,} {operation}s into 4 tables: {count / seconds / 1e3:.0f} thousand changes/s in all, "
            f"{count / summary.seconds / 1e3:.0f} in its {summary.batches} micro-batches"
        )


_ENVELOPE = """{"type":"record","name":"MessageEnvelope","fields":[
{"name":"magic","type":{"type":"fixed","name":"Magic","size":5}},
{"name":"type","type":"string"},
{"name":"headers","type":["null",{"type":"map","values":"string"}]},
{"name":"messageSchemaId","type":["null","string"]},{"name":"messageSchema","type":["null","string"]},
{"name":"message","type":"bytes"}]}"""


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, nothing written")
    quick = parser.parse_args().quick
    scale = 10 if quick else 1
    with tempfile.TemporaryDirectory(prefix="headstream-bench-") as name, Report("replicate", write=not quick) as report:
        directory = Path(name)
        bench_decode(report, directory, 300_000 // scale)
        spark = session("bench-replicate", master="local[2]")
        try:
            bench_merge(report, directory, spark, 1_000_000 // scale, 100_000 // scale)
            bench_pipeline(report, directory, spark, 200_000 // scale)
        finally:
            stop(spark)


if __name__ == "__main__":
    main()
