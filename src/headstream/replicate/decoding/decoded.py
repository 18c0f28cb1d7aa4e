"""The result of decoding raw messages, and the rows in which executors send the result to the driver.

Every message gets one of six results:

    metadata   a metadata message, for the schema store (raw)
    waiting    a data message whose schema has not arrived (raw, with the schema id)
    dead       a message that can never be a change (raw, with the reason)
    changes    a change, in one Arrow batch per schema id with the target's types
    unwanted   a change of a table that is not a target (counted; with `atomic`, transaction events too)
    tombstone  a null payload, which marks a deleted key in a compacted topic (counted)

Findings are warnings about the messages; they do not stop the pipeline.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import pyarrow as pa

from headstream.replicate.columns.change_statistics import ChangeStatistics, StoredChanges, join_statistics, statistics_of
from headstream.replicate.columns.loads import TableNotice
from headstream.replicate.columns.raw import read_ipc, write_ipc
from headstream.replicate.decoding.frame_times import PartitionTimes

DECODED_SCHEMA: Final = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),  # a category of raw messages, events, changes, statistics or totals
        pa.field("schema_id", pa.string()),  # of changes and statistics
        pa.field("count", pa.int64(), nullable=False),  # number of messages
        pa.field("content", pa.binary(), nullable=False),  # an Arrow IPC stream; for totals, a JSON object
    ]
)
DECODED_SPARK_SCHEMA: Final = "kind STRING NOT NULL, schema_id STRING, count BIGINT NOT NULL, content BINARY NOT NULL"


@dataclass(frozen=True, slots=True)
class Decoded:
    """The decoded form of a batch of raw messages.

    Args:
        metadata: Raw metadata messages.
        waiting: Raw data messages whose schema has not arrived.
        dead: Raw messages with a reason.
        events: Transaction events (EVENTS_SCHEMA) of tables that are not targets, if requested.
        changes: Schema id -> decoded changes, in one or more batches.
        stored: Schema id -> decoded changes that stay on executors, in addition to `changes`.
        unwanted: Number of messages whose tables are not targets.
        tombstones: Number of messages with a null payload.
        size_bytes: Size of the input messages, bytes.
        findings: Warning for the user -> number of affected messages.
        times: Log times of all messages by partition, in reading order.
        contexts: Trace contexts of sampled messages, if requested.
        notices: Notices about entire tables.
    """

    metadata: Sequence[pa.RecordBatch] = ()
    waiting: Sequence[pa.RecordBatch] = ()
    dead: Sequence[pa.RecordBatch] = ()
    events: Sequence[pa.RecordBatch] = ()
    changes: Mapping[str, Sequence[pa.RecordBatch]] = field(default_factory=dict)
    stored: Mapping[str, StoredChanges] = field(default_factory=dict)
    unwanted: int = 0
    tombstones: int = 0
    size_bytes: int = 0
    findings: Mapping[str, int] = field(default_factory=dict)
    times: Sequence[PartitionTimes] = ()
    contexts: Sequence[str] = ()
    notices: Sequence[TableNotice] = ()

    @classmethod
    def join(cls, parts: Iterable[Decoded]) -> Decoded:
        """Return the results of several batches as one result, in order."""
        parts = list(parts)
        changes: dict[str, list[pa.RecordBatch]] = {}
        stored: dict[str, StoredChanges] = {}
        findings = Counter[str]()
        for part in parts:
            for schema_id, batches in part.changes.items():
                changes.setdefault(schema_id, []).extend(batches)
            stored |= part.stored
            findings.update(part.findings)
        return cls(
            metadata=[batch for part in parts for batch in part.metadata],
            waiting=[batch for part in parts for batch in part.waiting],
            dead=[batch for part in parts for batch in part.dead],
            events=[batch for part in parts for batch in part.events],
            changes=changes,
            stored=stored,
            unwanted=sum(part.unwanted for part in parts),
            tombstones=sum(part.tombstones for part in parts),
            size_bytes=sum(part.size_bytes for part in parts),
            findings=findings,
            times=[times for part in parts for times in part.times],
            contexts=[context for part in parts for context in part.contexts],
            notices=[notice for part in parts for notice in part.notices],
        )

    @property
    def message_count(self) -> int:
        """Number of input messages."""
        raw = sum(batch.num_rows for batches in (self.metadata, self.waiting, self.dead) for batch in batches)
        stored = sum(stored.statistics.count for stored in self.stored.values())
        return int(raw + self.rows_in_driver + stored + self.unwanted + self.tombstones)

    @property
    def rows_in_driver(self) -> int:
        """Number of changes in the driver."""
        return sum(batch.num_rows for batches in self.changes.values() for batch in batches)

    def coordinates(
        self, schema_ids: Container[str] | None = None, wanted: pa.Table | None = None
    ) -> Iterator[tuple[str, pa.Table]]:
        """Yield schema id and CHANGE_COORDINATES of changes.

        Args:
            schema_ids: The schemas; None for all.
            wanted: COORDINATE_COLUMNS of the required changes; other changes can also be returned. None for all.
        """
        for schema_id, stored in self.stored.items():
            if schema_ids is None or schema_id in schema_ids:
                yield schema_id, stored.coordinates(wanted)
        for schema_id, batches in self.changes.items():
            if schema_ids is None or schema_id in schema_ids:
                yield schema_id, pa.Table.from_batches(batches)

    def with_changes(self, changes: Mapping[str, pa.Table]) -> Decoded:
        """Return the result with other changes of the given schemas in the driver."""
        found = {**self.changes, **{schema_id: table.to_batches() for schema_id, table in changes.items()}}
        return replace(self, changes={schema_id: batches for schema_id, batches in found.items() if batches})

    def without(self, schema_ids: Container[str]) -> Decoded:
        """Return the result without the changes of the given schemas."""
        changes = {schema_id: batches for schema_id, batches in self.changes.items() if schema_id not in schema_ids}
        stored = {schema_id: found for schema_id, found in self.stored.items() if schema_id not in schema_ids}
        return replace(self, changes=changes, stored=stored)

    def fetch(self, schema_ids: Iterable[str]) -> Decoded:
        """Fetch the stored changes of the given schemas to the driver; in `changes`, they precede the existing changes."""
        parts = {
            schema_id: [*self.stored[schema_id].fetch().to_batches(), *self.changes.get(schema_id, ())]
            for schema_id in schema_ids
        }
        fetched = {schema_id: batches for schema_id, batches in parts.items() if batches}  # all changes can be excluded
        stored = {schema_id: found for schema_id, found in self.stored.items() if schema_id not in parts}
        return replace(self, changes={**self.changes, **fetched}, stored=stored)

    def to_batch(self, *, with_statistics: bool = False) -> pa.RecordBatch:
        """Return the result as one batch of DECODED_SCHEMA, to send from an executor to the driver.

        Args:
            with_statistics: Whether to add statistics of the changes, for a driver that does not receive the changes.
        """
        raw = {"metadata": self.metadata, "waiting": self.waiting, "dead": self.dead, "events": self.events}
        rows: list[tuple[str, str | None, int, bytes]] = []
        for kind, batches in raw.items():
            rows += [(kind, None, batch.num_rows, write_ipc(batch)) for batch in batches]
        for schema_id, batches in self.changes.items():
            for batch in batches:
                rows.append(("changes", schema_id, batch.num_rows, write_ipc(batch)))
                if with_statistics:
                    statistics = statistics_of(pa.Table.from_batches([batch])).encode()
                    rows.append(("statistics", schema_id, batch.num_rows, statistics))
        names = ("unwanted", "tombstones", "size_bytes", "findings", "times", "contexts", "notices")
        rows.append(("totals", None, 0, json.dumps({name: getattr(self, name) for name in names}).encode()))
        columns = list(zip(*rows, strict=True))
        arrays = [pa.array(values, kind.type) for values, kind in zip(columns, DECODED_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=DECODED_SCHEMA)

    @classmethod
    def from_table(cls, table: pa.Table, store: Callable[[str, ChangeStatistics], StoredChanges] | None = None) -> Decoded:
        """Return the results from the batches of to_batch() that executors sent.

        Args:
            store: Returns the changes that stay on executors, by schema id and statistics; required for results with statistics.
        """
        parts: list[Decoded] = []
        statistics: dict[str, list[ChangeStatistics]] = {}
        for kind, schema_id, content in zip(*(table[name] for name in ("kind", "schema_id", "content")), strict=True):
            match kind.as_py():
                case "totals":
                    totals = json.loads(content.as_py())
                    times = [PartitionTimes(*each) for each in totals.pop("times")]
                    notices = [TableNotice(*each) for each in totals.pop("notices")]
                    parts.append(cls(times=times, notices=notices, **totals))
                case "statistics":
                    statistics.setdefault(schema_id.as_py(), []).append(ChangeStatistics.decode(content.as_buffer()))
                case "changes":
                    parts.append(cls(changes={schema_id.as_py(): read_ipc(content.as_buffer()).to_batches()}))
                case raw:
                    parts.append(cls(**{raw: read_ipc(content.as_buffer()).to_batches()}))
        stored = (
            {}
            if store is None
            else {schema_id: store(schema_id, join_statistics(found)) for schema_id, found in statistics.items()}
        )
        return replace(cls.join(parts), stored=stored)
