"""A pipeline's work on real tables and a real log, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import QueryBuilder

from headstream.connect import connect
from headstream.replicate.columns.raw import RAW_SCHEMA
from headstream.replicate.decoding.decode import Decoder, open_schema_store
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.engines.engine import TableEngine
from headstream.replicate.parked.ledger import Ledger, Table
from headstream.replicate.parked.parking import DEAD_LETTER_TOPIC
from headstream.replicate.run.pipeline import open_checkpoint_store
from headstream.replicate.run.processor import Processor
from headstream.replicate.run.summary import Summary
from headstream.replicate.run.unit import PipelineContext, Unit
from headstream.replicate.schemas.schema_catalog import DecodeOptions
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.merge_settings import MergeStrategy
from headstream.replicate.storage.delta_places import open_table
from headstream.replicate.storage.places import Place
from headstream.replicate.tables.tables import TargetTables, table_path
from headstream.testing import SourceDatabase, digest_rows
from headstream.testing.source_capture import SourceMessage
from tests.support.replicate.plain_engine import open_plain_engine

SECOND_US = 1_000_000
LINES = ("SHOP", "order_lines")


OpenEngine: TypeAlias = Callable[[Place, Literal["auto", "deltalake", "spark"], MergeStrategy], TableEngine]
"""Opens a table by its directory, and the engine and strategy of merges that its settings ask for."""


class Work:
    """One pipeline's work in a directory, with a clock that is set by hand; restart() is what a crash leaves."""

    def __init__(self, directory: Path, **options: Any) -> None:
        self.directory = directory
        self._open_engine: OpenEngine = options.pop("open_engine", open_plain_engine)
        self.now_us = 1_700_000_000 * SECOND_US
        self.next_offset = 0
        self.next_batch = 0
        self.options = options
        self.open()

    def open(self) -> None:
        places = {"tables": self.directory / "tables", "checkpoint": self.directory / "checkpoint"}
        config = ReplicateConfig(source="file:///nowhere", topics=("cdc/data",), **(places | self.options))
        self.checkpoint_store, self.config = open_checkpoint_store(config, lambda: self.now_us)
        decoding = DecodeOptions.of(self.config)
        self.schema_store = open_schema_store(self.config.schemas_directory, decoding, self.config.schemas_place)
        self.decoder = Decoder(self.schema_store, decoding)
        self.ledger = Ledger(self.config.state_directory / "ledger.sqlite")
        self.summary = Summary()
        tables = TargetTables.of(self.config, self._open_engine, self.ledger.pipeline_id, self.checkpoint_store)
        own = (
            self.config,
            self.schema_store,
            self.decoder,
            self.ledger,
            tables,
            self.summary,
            lambda: self.now_us,
            self.checkpoint_store,
        )
        self.context = PipelineContext(*own)
        self.processor = Processor(self.context)

    def close(self) -> None:
        self.processor.close()
        self.ledger.close()
        self.checkpoint_store.close()

    def restart(self) -> None:
        self.close()
        self.open()

    def raw(self, values: Iterable[bytes]) -> pa.Table:
        rows = []
        for value in values:
            place = {"topic": "cdc/data", "partition": 1, "offset": self.next_offset, "timestamp_us": self.now_us}
            rows.append(place | {"key": None, "headers": None, "payload": value, "schema_id": None, "reason": None})
            self.next_offset += 1
        return pa.Table.from_pylist(rows, schema=RAW_SCHEMA)

    def send(self, *values: bytes) -> None:
        """Let messages come as the next micro-batch."""
        self.process(self.raw(values), self.next_batch)
        self.next_batch += 1

    @property
    def tables_directory(self) -> Path:
        assert isinstance(self.config.tables, Path)
        return self.config.tables

    def rows(self, schema: str, table: str, directory: Place | None = None) -> list[dict[str, Any]]:
        """Every row of a table, bookkeeping included; or of one in another directory, such as that of the change tables."""
        target = open_table(table_path(directory or self.config.tables, schema, table))
        assert target is not None, (schema, table)
        return list(pa.table(QueryBuilder().register("t", target).execute("SELECT * FROM t")).to_pylist())

    def read_until_us(self, raw: pa.Table, batch_id: int) -> int | None:
        """The log time before which all partitions are read with a micro-batch: here there is one partition."""
        return (pc.max(raw["timestamp_us"]).as_py() or 0) + 1

    def process(self, raw: pa.Table, batch_id: int) -> None:
        decoded = self._decode(raw)
        if self.processor.store_schemas(decoded).shares_ids:
            decoded = self._decode(raw)
        self.processor.process(decoded, lambda wanted: raw, batch_id, self.read_until_us(raw, batch_id))

    def _decode(self, raw: pa.Table) -> Decoded:
        return Decoded.join(self.decoder.decode(batch) for batch in raw.combine_chunks().to_batches())

    def unit(self, *values: bytes) -> Unit:
        """Messages as a micro-batch before its first step."""
        return Unit("batch", self.next_batch, self._decode(self.raw(values)))

    def digest(self, source: SourceDatabase, schema: str, table: str) -> bool:
        rows = [row for row in self.rows(schema, table) if row.get("_hs_current", True) and not row.get("_hs_deleted")]
        keys = next(m.key_columns for m in source.tables() if (m.lineage.schema, m.lineage.table) == (schema, table))
        return bool(digest_rows(rows, keys) == source.digest(schema, table))

    def count_waiting(self) -> Counter[tuple[str, Table | None]]:
        """What messages wait for, and their table -> how many."""
        found = Counter[tuple[str, Table | None]]()
        for parked_batch in self.ledger.parked_batches("parked", "delayed", "called", "releasing"):
            found[parked_batch.cause, parked_batch.table] += parked_batch.count
        return found

    def dead_count(self) -> int:
        with connect(f"file://{self.config.state_directory / 'log'}") as log:
            return log.topic(DEAD_LETTER_TOPIC).messages_count


def plain(source: SourceDatabase) -> list[SourceMessage]:
    """Messages of the tables whose names need no column mapping."""
    return [message for message in source.capture() if message.table in ("SHOP.order_lines", "SHOP.customers")]
