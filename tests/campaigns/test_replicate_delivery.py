"""The pipeline's work under hostile delivery: any order, repeats, late schemas, any micro-batches, crashes at any step.

Each seed is a source, a way of writing its messages, a delivery and a number of crashes; the tables must equal the source's, and
what can never be a change must be in the dead letter, each message once. All but Spark is real.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, Literal

import pyarrow as pa
import pytest

from headstream.errors import StorageError
from headstream.replicate.apply.moved_keys.key_log import KeyLog
from headstream.replicate.apply.tombstones import Tombstones
from headstream.replicate.codec import decode_envelope
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.parked.parking import ParkingLot
from headstream.replicate.schemas.schema_store import SchemaStore
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.replicate.storage.places import Place, StorePlace
from headstream.replicate.tables.table_places import has_table, table_path
from headstream.testing import CaptureOptions, SourceDatabase, repeat, shuffle, split
from tests.support.crashes import CrashError
from tests.support.replicate.foreign_writer import write_history
from tests.support.replicate.pipeline_work import Work
from tests.unit.replicate.decoding.test_decode import PLAIN_TABLES

STEPS: list[tuple[type, str]] = [
    (SchemaStore, "add"),
    (ParkingLot, "begin_batch"),
    (ParkingLot, "park"),
    (ParkingLot, "dead_letter"),
    (ParkingLot, "end_batch"),
    (ParkingLot, "finish_release"),
    (Ledger, "add"),
    (Ledger, "begin_release"),
    (Ledger, "finish_release"),
    (DeltaLakeEngine, "merge"),
    (DeltaLakeEngine, "append"),
    (DeltaLakeEngine, "add_columns"),
    (DeltaLakeEngine, "widen"),
    (DeltaLakeEngine, "update"),
    (DeltaLakeEngine, "delete"),
    (KeyLog, "add"),
    (KeyLog, "replace"),
    (KeyLog, "_take_back"),
    (Tombstones, "record"),
    (Tombstones, "_take_back"),
]
"""Where a crash can be: before or after any call of these. A call of the engine may also fail, and the run goes on."""


class Crashes:
    """Lets a call of one of STEPS fail, before or after it is done, when its turn comes.

    Args:
        patch: Undoes it.
        failures: The share of the engine's calls that fail by themselves, before or after they are done.
        seed: Of those.
    """

    def __init__(self, patch: pytest.MonkeyPatch, failures: float = 0.0, seed: int = 0) -> None:
        self.left: int | None = None
        self.after = False
        self.count = 0
        self.failures = failures
        self._random = Random(seed)
        for owner, name in STEPS:
            patch.setattr(owner, name, self._wrap(getattr(owner, name), owner is DeltaLakeEngine))

    def plan(self, random: Random) -> None:
        """Crash at one of the next calls."""
        self.left, self.after = random.randrange(12), random.random() < 0.5

    def _wrap(self, original: Any, may_fail: bool) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if may_fail and self._random.random() < self.failures:
                if self._random.random() < 0.5:
                    original(*arguments, **options)
                raise StorageError("a disk that fails now and then")
            if self.left is None:
                return original(*arguments, **options)
            self.left -= 1
            if self.left >= 0:
                return original(*arguments, **options)
            self.left = None
            self.count += 1
            if self.after:
                original(*arguments, **options)
            raise CrashError

        return call


def write_messages(source: SourceDatabase, random: Random, seed: int, *, in_order: bool) -> list[bytes]:
    """Return a source's messages, metadata and data in one stream, written by us or by another writer.

    Changes of key that leave columns out, of a source that uses keys again, are for messages that come in order.
    """
    if not in_order and random.random() < 0.3:
        return [value for _, value in write_history(PLAIN_TABLES, source.changes, seed)]
    options = CaptureOptions(
        partial_images=in_order or random.random() < 0.6,
        partial_key_changes=in_order,
        before_images=random.random() < 0.7,
        deletes_in=random.choice(["data", "before"]),
        deleted_columns=random.choice(["all", "key"]),
        late_metadata={}
        if in_order
        else random.choice([{}, {"SHOP.order_lines": "end"}, {"SHOP.customers": 9, "LAB.devices": 20}]),
        metadata_copies=random.choice([1, 2]),
        metadata_ids=random.random() < 0.5,
        transaction_fields=random.random() < 0.5,
        envelope_headers=random.choice([None, {"region": "eu"}]),
        refresh_times=random.random() < 0.5,
    )
    return [message.value for message in source.capture(options)]


def deliver(
    directory: Path,
    seed: int,
    *,
    crashes: int,
    scd_type: Literal[1, 2] = 1,
    in_order: bool = False,
    failures: float = 0.0,
    place: Place | None = None,
    checkpoint: Place | None = None,
    repair: Callable[[], None] = lambda: None,
) -> None:
    """Let one seed's messages go through, repair a store that fails, and compare; tables and checkpoint are in the directory or
    at other places."""
    place = directory if place is None else place
    random = Random(seed)
    source = SourceDatabase(seed, tables=PLAIN_TABLES, rows=random.randrange(12), transactions=random.randrange(5, 40))
    junk = [b"junk %d" % number for number in range(3)]
    sent = write_messages(source, random, seed, in_order=in_order) + junk
    window = random.choice([None, 3, 40])
    arrived = repeat(sent if in_order else shuffle(sent, seed=seed, window=window), seed=seed, fraction=0.2)
    changes = place / "changes" if seed % 2 or failures else None
    places: dict[str, Any] = {"tables": place / "tables", "change_tables": changes}
    if checkpoint is not None:
        places["checkpoint"] = checkpoint
    if isinstance(place, StorePlace):
        places["storage"] = place.storage
    work = Work(directory, **places, rules=TableRules(defaults=TableSettings(scd_type=scd_type)))
    parts = [work.raw(part) for part in split(arrived, random.randint(1, 5), seed=seed)]
    with pytest.MonkeyPatch.context() as patch:
        fault = Crashes(patch, failures, seed)
        for batch_id, part in enumerate(parts):
            crashed = random.random() < 0.1  # sometimes a batch is run again although it was whole
            while fault.count < crashes and random.random() < 0.8:
                fault.plan(random)
                crashed = _crash(work, part, batch_id) or crashed
                fault.left = None
                work.restart()
                for earlier in range(batch_id):
                    _process(work, parts[earlier], earlier)
            for _ in range(1 + crashed):
                work.process(part, batch_id)
            _note_commit(work, batch_id)
            work.now_us += random.choice([0, 1, 2, 20]) * 1_000_000
    work.now_us += 3600 * 1_000_000
    while work.processor.sweep(last=True):
        pass
    repair()
    assert work.ledger.waiting().count == 0, f"seed {seed}"
    assert work.dead_count() == sum(value.startswith(b"junk") for value in arrived), f"seed {seed}"
    for metadata in source.tables():
        schema, table = metadata.lineage.schema, metadata.lineage.table
        if source.final_state(schema, table) or any(change.table.name == table for change in source.changes):
            assert work.digest(source, schema, table), f"{schema}.{table}, seed {seed}"
    if changes is not None:
        _check_change_tables(work, sum(_is_change(value) for value in arrived), f"seed {seed}")
    work.close()


def _process(work: Work, part: pa.Table, batch_id: int) -> None:
    """Process a micro-batch again if the checkpoint does not have its commit, as Spark does."""
    if not _commit_of(work, batch_id).exists():
        work.process(part, batch_id)
        _note_commit(work, batch_id)


def _note_commit(work: Work, batch_id: int) -> None:
    path = _commit_of(work, batch_id)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def _commit_of(work: Work, batch_id: int) -> Path:
    return work.config.state_directory / "spark" / "commits" / str(batch_id)


def _is_change(value: bytes) -> bool:
    return not value.startswith(b"junk") and decode_envelope(value).type == "DT"


def _check_change_tables(work: Work, expected: int, what: str) -> None:
    """Compare with the messages that came: each of them that is a change is there once."""
    place = work.config.change_tables
    assert place is not None
    tables = [(table.schema, table.name) for table in PLAIN_TABLES if has_table(table_path(place, table.schema, table.name))]
    rows = [row for table in tables for row in work.rows(*table, place)]
    offsets = [row["_hs_offset"] for row in rows]
    assert len(set(offsets)) == len(offsets) == expected, what


def _crash(work: Work, part: pa.Table, batch_id: int) -> bool:
    try:
        work.process(part, batch_id)
    except CrashError:
        return True
    return False


@pytest.mark.parametrize("seed", range(1, 6))
def test_tables_equal_the_source_under_hostile_delivery(tmp_path: Path, seed: int) -> None:
    deliver(tmp_path, seed, crashes=3)


@pytest.mark.parametrize("seed", range(21, 24))
def test_tables_equal_the_source_when_changes_of_key_leave_columns_out(tmp_path: Path, seed: int) -> None:
    deliver(tmp_path, seed, crashes=3, in_order=True)


@pytest.mark.parametrize("seed", range(11, 14))
def test_open_versions_equal_the_source_under_hostile_delivery(tmp_path: Path, seed: int) -> None:
    deliver(tmp_path, seed, crashes=3, scd_type=2)


@pytest.mark.parametrize("seed", range(31, 34))
@pytest.mark.parametrize("scd_type", [1, 2])
def test_each_change_is_told_once_when_the_engine_fails_now_and_then(tmp_path: Path, seed: int, scd_type: Literal[1, 2]) -> None:
    deliver(tmp_path, seed, crashes=4, scd_type=scd_type, failures=0.15)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(400, 700, 50))
@pytest.mark.parametrize("scd_type", [1, 2])
def test_each_change_is_told_once_when_the_engine_fails_for_long(tmp_path: Path, first: int, scd_type: Literal[1, 2]) -> None:
    for seed in range(first, first + 50):
        deliver(tmp_path / str(seed), seed, crashes=8, scd_type=scd_type, failures=0.15)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(100, 400, 50))
@pytest.mark.parametrize("scd_type", [1, 2])
def test_tables_equal_the_source_under_hostile_delivery_for_long(tmp_path: Path, first: int, scd_type: Literal[1, 2]) -> None:
    for seed in range(first, first + 50):
        deliver(tmp_path / str(seed), seed, crashes=8, scd_type=scd_type)
