"""The pipeline: a Spark query over the log, and what is done with each micro-batch of it.

    messages -> decode (executors, one pass) -> metadata: schema zone | data: merged, a commit a table
                                              | waiting: parked, released when the schema comes | dead letter

A micro-batch that is run again after a crash changes nothing: the zone, the ledger and each table's own log of
applied batches say what its first run already did, and a change that is older than its row is passed over.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headstream.codec.replicate import decode_envelope, decode_metadata
from headstream.connect import connect
from headstream.errors import DecodeError, ReplicateError, SchemaError
from headstream.spark.replicate.apply.mapped import SparkMappedTables
from headstream.spark.replicate.config import ReplicateConfig
from headstream.spark.replicate.decode import DECODED_SPARK_SCHEMA, Decoded, Decoder, decode_partitions
from headstream.spark.replicate.ledger import Ledger
from headstream.spark.replicate.parking import ParkingLot
from headstream.spark.replicate.raw import RAW_SCHEMA, coordinates_of
from headstream.spark.replicate.schemas import TableSchema
from headstream.spark.replicate.summary import Summary
from headstream.spark.replicate.tables import Applied, TargetTables
from headstream.spark.replicate.zone import SchemaZone, ZoneEntry

__all__ = ["ReplicatePipeline"]

_SWEEP_SECONDS = 0.5
"""How often messages that wait are looked after while no data comes."""


class ReplicatePipeline:
    """One run of a pipeline; its state is in the checkpoint, so that the next run goes on where this one ended.

    Args:
        spark: A session made by headstream.spark.session().
        config: What to read and where to write.
        on_progress: Called with the summary so far after every micro-batch.
        clock: The time in nanoseconds since 1970 UTC.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: ReplicateConfig,
        *,
        on_progress: Callable[[Summary], None] | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._spark = spark
        self._config = config
        self._on_progress = on_progress
        self._clock = clock
        self._lock = threading.Lock()  # a micro-batch runs on Spark's thread, the sweep on the caller's
        self._stopping = threading.Event()
        self._failure: BaseException | None = None
        self._zone = SchemaZone(config.zone_directory)
        self._decoder = Decoder(self._zone, config.mask_order)
        self._ledger = Ledger(config.checkpoint / "ledger.sqlite")
        self._parking = ParkingLot(config.checkpoint, config.delayed, self._ledger)
        self._tables = TargetTables(config.tables, config.checkpoint / "tombstones", SparkMappedTables(spark))
        self._summary = Summary()

    def run(self) -> Summary:
        """Run until stopped, or with `once` until everything that was there is applied.

        Returns:
            What the run has done.

        Raises:
            HeadstreamError: the source cannot be read, a table cannot be written, or a schema is missing and the policy
                is `fail`. What was applied stays; the next run goes on from there.
        """
        try:
            self._check_topics()
            query = self._start()
            try:
                while not query.awaitTermination(_SWEEP_SECONDS):
                    if self._stopping.is_set():
                        break
                    self._sweep()
            finally:
                query.stop()
            self._sweep()
        except PySparkException as error:
            if self._failure is not None:
                raise self._failure from None
            raise ReplicateError(f"the Spark query failed: {_reason(error)}", where=self._config.source) from error
        except (Py4JError, ConnectionError) as error:
            if self._failure is not None:
                raise self._failure from None
            raise ReplicateError(
                "Spark's Java process has ended",
                where=self._config.source,
                advice="Java says why above; run again with the same checkpoint, which goes on where this run ended",
            ) from error
        finally:
            self._count_waiting()
            self._parking.close()
            self._ledger.close()
        return self._summary

    def stop(self) -> None:
        """End run() after the micro-batch that is being applied; may be called from any thread."""
        self._stopping.set()

    def _check_topics(self) -> None:
        """Say at once that a topic does not exist, in the log's own words."""
        with connect(self._config.source) as log:
            for topic in self._config.all_topics:
                log.topic(topic)

    def _start(self) -> Any:
        messages = (
            self._spark.readStream.format("headstream")
            .option("url", self._config.source)
            .option("subscribe", ",".join(self._config.all_topics))
            .option("startingOffsets", "earliest")
            .option("headers", "binary")
            .option("maxOffsetsPerTrigger", self._config.max_messages_per_batch)
            .load()
        )
        raw = messages.selectExpr(
            "concat(stream, '/', topic) AS topic", "partition", "offset", "unix_micros(timestamp) AS timestamp_us",
            "key", "headers", "payload",
        )  # fmt: skip
        writer = raw.writeStream.foreachBatch(self._run_batch).option(
            "checkpointLocation", str(self._config.checkpoint / "spark")
        )
        return (writer.trigger(availableNow=True) if self._config.once else writer).queryName("headstream-replicate").start()

    def _run_batch(self, messages: DataFrame, batch_id: int) -> None:
        with self._lock:
            try:
                self._apply_batch(messages, batch_id)
            except BaseException as error:
                self._failure = error  # Spark hands on its text alone
                raise

    def _apply_batch(self, messages: DataFrame, batch_id: int) -> None:
        began = time.monotonic()
        decode = decode_partitions(self._config.zone_directory, self._config.mask_order)
        decoded = Decoded.from_table(messages.mapInArrow(decode, DECODED_SPARK_SCHEMA).toArrow())
        self._summary.messages += decoded.message_count
        self._parking.begin_batch(batch_id)
        if self._learn(decoded) or decoded.waiting:
            waiting, decoded.waiting = decoded.waiting, []
            for batch in waiting:  # its schema may have come in this very batch
                decoded.extend(self._decoder.decode(batch))
        self._summary.parked += self._parking.park(decoded.waiting, self._now_us())
        unit = f"{self._ledger.pipeline_id}/batch"
        applied = self._apply(decoded, unit, batch_id)
        if applied.rejected:
            decoded.dead.append(_rejected_rows(messages, applied))
        self._summary.dead += self._parking.bury(decoded.dead)
        self._release()
        self._summary.batches += 1
        self._summary.seconds += time.monotonic() - began
        self._report()

    def _learn(self, decoded: Decoded) -> bool:
        """Put the schemas of metadata messages into the zone; return whether one of them is new."""
        learned = 0
        for batch in decoded.metadata:
            reasons: list[str | None] = []
            for row in batch.to_pylist():
                try:
                    metadata = decode_metadata(decode_envelope(row["payload"]))
                    entry = ZoneEntry(metadata, self._now_us(), row["topic"], row["partition"], row["offset"])
                    learned += self._zone.add(entry)
                    reasons.append(None)
                except (DecodeError, SchemaError) as error:
                    reasons.append(str(error))
            bad = batch.set_column(RAW_SCHEMA.get_field_index("reason"), "reason", pa.array(reasons, pa.string()))
            bad = bad.filter(bad.column("reason").is_valid())
            if bad.num_rows:
                decoded.dead.append(bad)
        self._summary.schemas += learned
        return learned > 0

    def _apply(self, decoded: Decoded, unit: str, version: int) -> Applied:
        schemas: dict[str, TableSchema] = {schema_id: self._decoder.schema(schema_id) for schema_id in decoded.changes}
        applied = self._tables.apply(decoded.changes, schemas, unit, version)
        self._summary.add(applied)
        return applied

    def _release(self) -> None:
        """Apply every message that has waited and whose schema is there now."""
        while True:
            ready = [schema_id for schema_id in self._ledger.waiting_ids() if self._zone.find(schema_id) is not None]
            release = self._parking.next_release(ready)
            if release is None:
                return
            number, raw = release
            decoded = self._decoder.decode(raw)
            applied = self._apply(decoded, f"{self._ledger.pipeline_id}/release", number)
            rejected = [
                raw_row | {"reason": applied.rejected[c]}
                for raw_row in raw.to_pylist()
                if (c := coordinates_of(raw_row)) in applied.rejected
            ]
            if rejected:
                decoded.dead.append(pa.RecordBatch.from_pylist(rejected, schema=RAW_SCHEMA))
            self._summary.dead += self._parking.bury(decoded.dead)
            self._summary.released += raw.num_rows
            self._parking.finish_release(number)

    def _sweep(self) -> None:
        """Release what can be released, and deal with what has waited too long."""
        with self._lock:
            self._release()
            overdue = self._parking.overdue(self._now_us() - self._config.schema_wait_us)
            if not overdue:
                return
            ids = ", ".join(sorted({message.schema_id for message in overdue})[:3])
            reason = f"its schema has not come in {self._config.schema_wait_us / 1e6:g} s: schema id {ids}"
            if self._config.on_missing_schema == "fail":
                raise SchemaError(
                    f"{len(overdue)} messages wait for a schema that has not come: schema id {ids}",
                    where=overdue[0].topic,
                    advice="Send its metadata message, or run with --on-missing-schema delayed",
                )
            if self._config.on_missing_schema == "delayed":
                self._parking.delay(overdue)
            else:
                self._parking.give_up(overdue, reason)
                self._summary.dead += len(overdue)
            self._report()

    def _report(self) -> None:
        self._count_waiting()
        if self._on_progress is not None:
            self._on_progress(self._summary)

    def _count_waiting(self) -> None:
        counts = self._ledger.counts()
        self._summary.parked = counts.get("parked", 0) + counts.get("releasing", 0)
        self._summary.delayed = counts.get("delayed", 0)

    def _now_us(self) -> int:
        return self._clock() // 1000


def _rejected_rows(messages: DataFrame, applied: Applied) -> pa.RecordBatch:
    """Read rejected messages of a micro-batch again: their bytes did not travel with the decoded changes."""
    low = min(offset for _, _, offset in applied.rejected)
    high = max(offset for _, _, offset in applied.rejected)
    rows = messages.where(f"offset BETWEEN {low} AND {high}").toArrow().to_pylist()
    chosen = [
        row | {"schema_id": None, "reason": applied.rejected[coordinates_of(row)]}
        for row in rows
        if coordinates_of(row) in applied.rejected
    ]
    return pa.RecordBatch.from_pylist(chosen, schema=RAW_SCHEMA)


def _reason(error: Exception) -> str:
    """Return what a failed query is about: our own error where one is inside, else Spark's first line."""
    text = str(error).strip()
    ours = re.findall(r"^headstream\.errors\.\w+: (.+)$", text, re.MULTILINE)
    return ours[-1] if ours else text.splitlines()[0]
