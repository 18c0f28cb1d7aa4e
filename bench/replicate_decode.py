"""Envelopes to typed rows, side by side in one run; results in results/replicate_decode.txt.

ours        what the pipeline does with a micro-batch: one pass over it in the Python workers, typed columns in the driver
from_avro   a hand-written consumer: from_avro of the envelope, then a job a schema id, into `noop`
fastavro    a hand-written consumer with one pass in Python: fastavro in mapInArrow, into `noop`
kernel      the decoder alone, on one core, without Spark

Micro-batches of 200,000 envelopes of ten columns, of 1 and of 30 schema ids; local[2].

    python -m bench.replicate_decode [--quick]
"""

from __future__ import annotations

import io
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import fastavro
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.avro.functions import from_avro

from bench.machine import Report, run_benchmark
from bench.replicate_messages import ENVELOPE_SCHEMA, Envelopes, make_table, raw_batches, table_types
from headstream.replicate.codec import TableMetadata, decode_envelope, decode_metadata, metadata_message
from headstream.replicate.columns.conversion import arrow_type
from headstream.replicate.decoding.decode import Decoder, decode_partitions
from headstream.replicate.decoding.decoded import DECODED_SPARK_SCHEMA, Decoded
from headstream.replicate.schemas.schema_catalog import DecodeOptions
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema
from headstream.spark import session, stop

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_MESSAGES: Final = 200_000
_ROWS_SCHEMA: Final = ", ".join(f"{name} {kind}" for name, kind in table_types().items())


def make_schema_store(directory: Path, tables: list[TableMetadata]) -> SchemaStore:
    """Return a schema store that knows some tables."""
    schema_store = SchemaStore(directory)
    for table in tables:
        schema_store.add(StoredSchema(decode_metadata(decode_envelope(metadata_message(table))), 0, "t", 1, 0))
    return schema_store


def make_messages(tables: list[TableMetadata], count: int) -> list[bytes]:
    """Return inserts, one table after the other."""
    writers = [Envelopes(table) for table in tables]
    return [writers[n % len(writers)].write("INSERT", n, n) for n in range(count)]


def decode_ours(messages: DataFrame, schema_store: SchemaStore) -> int:
    """Decode as the pipeline does; return how many changes that gave."""
    table = messages.mapInArrow(decode_partitions(schema_store, DecodeOptions()), DECODED_SPARK_SCHEMA).toArrow()
    decoded = Decoded.from_table(table)
    assert not [*decoded.dead, *decoded.waiting]
    return sum(batch.num_rows for batches in decoded.changes.values() for batch in batches)


def decode_by_from_avro(messages: DataFrame, schemas: dict[str, str]) -> int:
    """Decode in the JVM, a job a schema id."""
    opened = messages.select(from_avro("payload", ENVELOPE_SCHEMA).alias("e")).select("e.messageSchemaId", "e.message")
    several = len(schemas) > 1
    if several:
        opened = opened.persist()
        ids = [row[0] for row in opened.select("messageSchemaId").distinct().collect()]
    else:
        ids = list(schemas)
    for schema_id in ids:
        chosen = opened.where(sf.col("messageSchemaId") == schema_id) if several else opened
        rows = chosen.select(from_avro("message", schemas[schema_id]).alias("r"))
        rows.select("r.data.*", "r.headers.operation", "r.headers.changeSequence").write.format("noop").mode("append").save()
    if several:
        opened.unpersist()
    return BATCH_MESSAGES


def decode_by_fastavro(messages: DataFrame, schemas: dict[str, str]) -> int:
    """Decode in one pass of Python, a message at a time."""
    fields = [pa.field(name, arrow_type(kind)) for name, kind in table_types().items()]
    wanted = pa.schema([pa.field("messageSchemaId", pa.string()), *fields])

    def decode(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        envelope = fastavro.parse_schema(json.loads(ENVELOPE_SCHEMA))
        parsed = {schema_id: fastavro.parse_schema(json.loads(schema)) for schema_id, schema in schemas.items()}
        for batch in batches:
            rows = []
            for value in batch.column("payload").to_pylist():
                opened: Any = fastavro.schemaless_reader(io.BytesIO(value), envelope)
                row: Any = fastavro.schemaless_reader(io.BytesIO(opened["message"]), parsed[opened["messageSchemaId"]])
                rows.append({"messageSchemaId": opened["messageSchemaId"], **row["data"]})
            yield pa.RecordBatch.from_pylist(rows, schema=wanted)

    rows = messages.select("payload").mapInArrow(decode, f"messageSchemaId STRING, {_ROWS_SCHEMA}")
    rows.write.format("noop").mode("append").save()
    return BATCH_MESSAGES


def bench_spark(report: Report, directory: Path, spark: SparkSession, ids: int, batches: int) -> None:
    """The three consumers, in turn, batch after batch; the first of each is not counted."""
    tables = [make_table(number) for number in range(ids)]
    schema_store = make_schema_store(directory / f"zone{ids}", tables)
    schemas = {table.schema_id: table.data_schema for table in tables}
    made = pa.Table.from_batches(raw_batches(make_messages(tables, BATCH_MESSAGES)))
    messages = spark.createDataFrame(made).coalesce(2).persist()
    messages.count()
    runs: dict[str, Callable[[], int]] = {
        "ours": lambda: decode_ours(messages, schema_store),
        "from_avro": lambda: decode_by_from_avro(messages, schemas),
        "fastavro": lambda: decode_by_fastavro(messages, schemas),
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(batches + 1):
        for name, run in runs.items():
            began = time.perf_counter()
            assert run() == BATCH_MESSAGES
            times[name].append(time.perf_counter() - began)
    messages.unpersist()
    rates = {name: BATCH_MESSAGES * batches / sum(each[1:]) for name, each in times.items()}
    compared = "; ".join(
        f"{name} {rates[name] / 1e6:.3f}, {rates['ours'] / rates[name]:.1f} x" for name in ("from_avro", "fastavro")
    )
    report.line(
        f"decode, {BATCH_MESSAGES * batches:,} envelopes in {batches} micro-batches, {ids:2d} schema ids: "
        f"ours {rates['ours'] / 1e6:.3f} M rows/s; {compared}"
    )


def bench_kernel(report: Report, directory: Path, ids: int, count: int) -> None:
    """The decoder alone beside fastavro alone, one core."""
    tables = [make_table(number) for number in range(ids)]
    schema_store = make_schema_store(directory / f"kernel{ids}", tables)
    values = make_messages(tables, count)
    batches = list(raw_batches(values))
    few = values[: count // 20]
    envelope = fastavro.parse_schema(json.loads(ENVELOPE_SCHEMA))
    schemas = {table.schema_id: fastavro.parse_schema(json.loads(table.data_schema)) for table in tables}
    decoder = Decoder(schema_store)
    ours, theirs = [], []
    for _ in range(5):
        began = time.perf_counter()
        for batch in batches:
            assert not decoder.decode(batch).dead
        between = time.perf_counter()
        for value in few:
            opened: Any = fastavro.schemaless_reader(io.BytesIO(value), envelope)
            fastavro.schemaless_reader(io.BytesIO(opened["message"]), schemas[opened["messageSchemaId"]])
        ours.append(count / (between - began))
        theirs.append(len(few) / (time.perf_counter() - between))
    rate, other = statistics.median(ours), statistics.median(theirs)
    report.line(
        f"kernel, {ids:2d} schema ids, one core: {rate / 1e6:.2f} M rows/s; fastavro {other / 1e6:.3f}, {rate / other:.0f} x"
    )


def main() -> None:
    """Run all of it."""
    with run_benchmark("replicate_decode", __doc__, "a fifth of the work, nothing written") as (report, directory, quick):
        for ids in (1, 30):
            bench_kernel(report, directory, ids, 20_000 if quick else 100_000)
        spark = session("bench-replicate", master="local[2]", config={"spark.driver.memory": "3g"})
        try:
            for ids in (1, 30):
                bench_spark(report, directory, spark, ids, 1 if quick else 5)
        finally:
            stop(spark)


if __name__ == "__main__":
    main()
