"""A unit of work: the messages of a micro-batch, or of a release of parked messages.

A unit is a value. Each step of processor.py returns a new unit without the messages that it has removed from `decoded`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow as pa

from headstream.replicate.checkpoint.checkpoint_store import CheckpointStore, LocalCheckpointStore
from headstream.replicate.columns.raw import coordinates_table
from headstream.replicate.decoding.decode import Decoder
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.parked.ledger import Ledger, Record, Table, no_record
from headstream.replicate.parked.parking import Held
from headstream.replicate.run.mirrors import IcebergMirrors
from headstream.replicate.run.summary import Summary
from headstream.replicate.schemas.schema_store import SchemaStore
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.tables.tables import TargetTables

_NO_TEXTS: Final = pa.nulls(0, pa.string())
NONE_REJECTED: Final = coordinates_table(()).append_column("schema_id", _NO_TEXTS).append_column("reason", _NO_TEXTS)


@dataclass(frozen=True, slots=True)
class PipelineContext:
    """The objects that the steps of one pipeline share."""

    config: ReplicateConfig
    schema_store: SchemaStore
    decoder: Decoder
    ledger: Ledger
    tables: TargetTables
    summary: Summary
    clock_us: Callable[[], int]
    checkpoint_store: CheckpointStore = field(default_factory=LocalCheckpointStore)
    iceberg: IcebergMirrors | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of work.

    Args:
        number: Number of the unit, the same in a rerun after a crash; micro-batches and releases are numbered separately.
        is_repeated: Whether changes may already be applied, by an earlier run or before they were parked.
        held_tables: Tables that are excluded from the merge -> the reason.
        stopped: The complete messages of stopped tables, which wait for their table.
        held: Coordinates of waiting changes, with schema ids.
        rejected: Coordinates of changes that can never be applied, with schema ids and reasons.
        record: Writes to the ledger in the transaction that records the waiting messages.
    """

    kind: Literal["batch", "release"]
    number: int
    decoded: Decoded
    is_repeated: bool = False
    held_tables: Mapping[Table, str] = field(default_factory=dict)
    stopped: Sequence[Held] = ()
    held: Sequence[Held] = ()
    rejected: pa.Table = field(default_factory=lambda: NONE_REJECTED)
    record: Record = no_record
