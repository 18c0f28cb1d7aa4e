"""Histories of a Delta table with deletion vectors: its rows are those of a model, by our reader and by others.

    python -m tests.campaigns vectors --seeds 1-1000

One seed decides the table and the steps. Three writers with snapshots of their own, of any age, merge by deletion vectors; one
that is killed, before or after its commit, begins again in a new process and repeats what its transaction does not have.

    changes             upserts, deletes, repeats, older changes, files whose rows are all deleted
    maintenance         folds in steps, checkpoints, vacuum of all that no version needs
    foreign writers     deltalake's delete, update, append, merge, compaction, Z-order, restore; Spark's, if given
    commits             overtaken by another writer, with a lost answer, refused by a store that is down
    damage              a missing or altered vector: an error that names the file; the table beside it stays as it is
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from headstream.errors import StorageError
from headstream.replicate.engines.folding import fold
from headstream.replicate.storage import delta_commit
from headstream.replicate.storage.data_files import write_data_files
from headstream.replicate.storage.delta_commit import Conflict, commit_rows, write_checkpoint
from headstream.replicate.storage.delta_log import DataFile, LogSnapshot, open_parquet, read_batches
from headstream.replicate.storage.table_files import create_file
from tests.support.replicate.plain_engine import open_plain_engine

_MEMORY: Final = "/dev/shm"
_ATTEMPTS: Final = 5
_CITIES: Final = ("Zurich", "b", None)
_SCHEMA: Final = pa.schema([("id", pa.int64()), ("seq", pa.int64()), ("city", pa.string()), ("value", pa.string())])
Row = tuple[int, int, str | None, str]
Model = dict[int, Row]
Reader = Callable[[Path], list[Row]]


class Killed(BaseException):
    """The process of a writer ends here."""


def rows_by_deltalake(table: Path) -> list[Row]:
    """Return the rows of a table's newest version as deltalake's queries give them."""
    found = QueryBuilder().register("t", DeltaTable(table)).execute("SELECT id, seq, city, value FROM t").read_all()
    return _rows(pa.table(found))


class Writer:
    """A writer of the table, in one process after another."""

    def __init__(self, name: str, table: Path) -> None:
        self.name = name
        self.version = 0
        self._table = table
        self.snapshot: LogSnapshot | None = None

    def open(self) -> LogSnapshot:
        """Its snapshot, which may be old; a new process reads one."""
        if self.snapshot is None:
            self.snapshot = LogSnapshot.read(self._table)
        return self.snapshot

    def merge(self, changes: dict[int, Row | None], sequences: dict[int, int], deleted: dict[int, int]) -> None:
        """Merge changes in one commit, as often as others come first.

        Args:
            changes: id -> row; None deletes it.
            sequences: id -> sequence of its change.
            deleted: id -> sequence of its deletion.
        """
        for _ in range(_ATTEMPTS):
            snapshot = self.open()
            removed: dict[str, Any] = {}
            unmatched = {key for key in changes if sequences[key] > deleted.get(key, -1)}
            added: list[Row] = []
            for file in list(snapshot.files.values()):
                gone = snapshot.deleted_rows([file]).get(file.path, np.empty(0, np.uint32))
                stored = open_parquet(snapshot, file).read(["id", "seq"]).to_pydict()
                live = set(range(len(stored["id"]))) - set(gone.tolist())
                matched = [position for position in live if stored["id"][position] in changes]
                unmatched -= {stored["id"][position] for position in matched}
                older = [number for number in matched if sequences[stored["id"][number]] > stored["seq"][number]]
                added += [row for number in older if (row := changes[stored["id"][number]]) is not None]
                if older:
                    removed[file.path] = np.union1d(gone, np.array(older, np.uint32)).astype(np.uint32)
            added += [row for key in unmatched if (row := changes[key]) is not None]
            files = write_data_files(snapshot, _table_of(added)) if added else []
            own: dict[str, Any] = {"app_id": self.name, "version": self.version, "operation": "MERGE", "metrics": {}}
            try:
                commit_rows(snapshot, removed=removed, added=files, enable_deletion_vectors=True, **own)
                return
            except Conflict:
                continue
        raise AssertionError(f"{_ATTEMPTS} attempts of {self.name} were overtaken by one commit")


class VectorHistory:
    """One history.

    Args:
        seed: Determines the history.
        steps: Number of steps.
        readers: Name -> another reader, with which the rows are compared at the end; deltalake's is always among them.
        spark: A session that deletes rows and optimizes the table too; None for none.
    """

    def __init__(self, seed: int, steps: int = 40, readers: dict[str, Reader] | None = None, spark: Any = None) -> None:
        self._rng = random.Random(seed)
        self._steps = steps
        self._readers = {"deltalake": rows_by_deltalake} | (readers or {})
        self._spark = spark
        self.trail: list[str] = []
        self.counts: Counter[str] = Counter()
        self._sequence = 0
        self._next_id = 0
        self._model: Model = {}
        self._deleted: dict[int, int] = {}
        self._versions: dict[int, Model] = {}

    def run(self) -> None:
        """Run it, and raise AssertionError at the first difference from the model."""
        directory = tempfile.mkdtemp(prefix="vectors-", dir=_MEMORY if Path(_MEMORY).is_dir() else None)
        try:
            self._table = Path(directory) / "t"
            self._run()
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def _run(self) -> None:
        partitions = self._rng.choice([None, ["city"]])
        self._writers = [Writer(name, self._table) for name in "abc"]
        properties = {"delta.checkpointInterval": str(self._rng.choice([3, 10]))}
        for _ in range(self._rng.randint(1, 4)):
            rows = [self._new_row() for _ in range(self._rng.choice([30, 300, 3000]))]
            write_deltalake(self._table, _table_of(rows), mode="append", partition_by=partitions, configuration=properties)
            self._model |= {row[0]: row for row in rows}
        self._note("created")
        steps = {self._merge: 20, self._overtaken: 4, self._killed: 4, self._lost: 3, self._refused: 1, self._empty_file: 2}
        steps |= {self._fold: 4, self._checkpoint: 1, self._vacuum: 2, self._optimize: 2, self._restore: 1, self._damage: 2}
        steps |= {self._delete: 2, self._update: 2, self._append: 1, self._rewrite: 2}
        steps |= {} if self._spark is None else {self._by_spark: 2}
        # Chosen before they run: what a step draws depends on what it finds.
        for step in self._rng.choices(list(steps), list(steps.values()), k=self._steps):
            step()
            self._note(step.__name__.strip("_"))
        self._compare(self._readers)
        log = sorted((self._table / "_delta_log").glob("*.json"))
        applied = Counter((found["appId"], found["version"]) for file in log for found in _transactions(file.read_bytes()))
        assert max(applied.values(), default=1) == 1, "changes were committed twice"

    # changes

    def _new_row(self, key: int | None = None) -> Row:
        if key is None:
            key = self._next_id
            self._next_id += 1
        self._sequence += 1
        return key, self._sequence, self._rng.choice(_CITIES), f"{key}-{self._sequence}" * self._rng.choice([1, 1, 8])

    def _some(self, most: int) -> list[int]:
        """Return ids that have rows."""
        known = sorted(self._model)
        return self._rng.sample(known, min(len(known), self._rng.randint(1, most)))

    def _changes(self) -> tuple[dict[int, Row | None], dict[int, int]]:
        """Return changes of a batch: id -> row or None, and id -> sequence; some are older than what is stored."""
        changes: dict[int, Row | None] = {}
        sequences: dict[int, int] = {}
        gone = self._rng.sample(sorted(self._deleted), min(len(self._deleted), 3))
        for key in [
            *self._some(self._rng.choice([3, 40, 900])),
            *gone,
            *(self._new_row()[0] for _ in range(self._rng.randint(0, 20))),
        ]:
            row = self._new_row(key)
            if self._rng.random() < 0.1:  # an older change, or one that comes again
                known = self._model[key][1] if key in self._model else self._deleted.get(key, 0)
                row = (key, max(0, known - self._rng.randint(0, 2)), *row[2:])
                self.counts["older changes"] += 1
            sequences[key] = row[1]
            changes[key] = None if self._rng.random() < 0.3 else row
        return changes, sequences

    def _apply(self, changes: dict[int, Row | None], sequences: dict[int, int]) -> None:
        for key, row in changes.items():
            stored = self._model.get(key)
            if sequences[key] <= (self._deleted.get(key, -1) if stored is None else stored[1]):
                continue
            if row is None:
                self._model.pop(key, None)
                self._deleted[key] = sequences[key]
            else:
                self._model[key] = row

    def _merge(self, fault: Any = None) -> None:
        writer = self._rng.choice(self._writers)
        changes, sequences = self._changes()
        writer.version += 1
        deleted = dict(self._deleted)
        with self._commits(fault):
            try:
                writer.merge(changes, sequences, deleted)
            except Killed:
                self.counts["kills"] += 1
                writer.snapshot = None
        if writer.open().transactions.get(writer.name) != writer.version:  # as a new process does
            writer.merge(changes, sequences, deleted)
        self._apply(changes, sequences)
        self.counts["merges"] += 1

    def _empty_file(self) -> None:
        snapshot = LogSnapshot.read(self._table)
        if not snapshot.files:
            return
        file = self._rng.choice(_in_order(snapshot))
        ids = set(open_parquet(snapshot, file).read(["id"])["id"].to_pylist()) & set(self._model)
        self._sequence += 1
        writer = self._rng.choice(self._writers)
        writer.version += 1
        changes: dict[int, Row | None] = dict.fromkeys(ids)
        sequences = dict.fromkeys(ids, self._sequence)
        writer.merge(changes, sequences, dict(self._deleted))
        self._apply(changes, sequences)

    # faults of commits

    @contextmanager
    def _commits(self, fault: Callable[[Path, str, bytes], bool] | None) -> Iterator[None]:
        """Have the first commit within meet a fault."""
        if fault is None:
            yield
            return
        met: list[str] = []

        def create(table: Path, path: str, content: bytes) -> bool:
            if met:
                return create_file(table, path, content)
            met.append(path)
            return fault(table, path, content)

        with mock.patch.object(delta_commit, "create_file", create):
            yield

    def _overtaken(self) -> None:
        def overtake(table: Path, path: str, content: bytes) -> bool:
            key = self._new_row()
            write_deltalake(table, _table_of([key]), mode="append")
            self._model[key[0]] = key
            return create_file(table, path, content)

        self.counts["overtaken"] += 1
        self._merge(overtake)

    def _killed(self) -> None:
        after = self._rng.random() < 0.5

        def kill(table: Path, path: str, content: bytes) -> bool:
            if after:
                create_file(table, path, content)
            raise Killed

        self._merge(kill)

    def _lost(self) -> None:
        gives_up = self._rng.random() < 0.5

        def lose(table: Path, path: str, content: bytes) -> bool:
            create_file(table, path, content)
            if gives_up:
                raise StorageError("no answer", where=path)
            return create_file(table, path, content)

        self.counts["lost answers"] += 1
        self._merge(lose)

    def _refused(self) -> None:
        def refuse(_table: Path, path: str, _content: bytes) -> bool:
            raise StorageError("the store is down", where=path)

        writer = self._rng.choice(self._writers)
        changes, sequences = self._changes()
        writer.version += 1
        before = DeltaTable(self._table).version()
        writer.open().advance()
        with self._commits(refuse):
            try:
                writer.merge(changes, sequences, self._deleted)
            except StorageError:
                assert DeltaTable(self._table).version() == before
                return
        raise AssertionError("a commit that the store refused was reported as made")

    # maintenance and other writers

    def _fold(self) -> None:
        for _ in range(_ATTEMPTS):
            fault = self._rng.choice([None, None, self._kill_of_fold])
            writer = self._rng.choice(self._writers)
            with self._commits(fault):
                try:
                    done = fold(writer.open(), steps=self._rng.choice([1, 10]), step_bytes=self._rng.choice([20_000, 1 << 30]))
                    self.counts["folded files"] += done.removed
                    return
                except Killed:
                    writer.snapshot = None

    @staticmethod
    def _kill_of_fold(table: Path, path: str, content: bytes) -> bool:
        raise Killed

    def _checkpoint(self) -> None:
        write_checkpoint(self._rng.choice(self._writers).open())

    def _vacuum(self) -> None:
        before = sum(1 for _ in self._table.rglob("*.*"))
        open_plain_engine(self._table).vacuum(0)
        self._versions.clear()
        self.counts["vacuumed files"] += before - sum(1 for _ in self._table.rglob("*.*"))
        for writer in self._writers:  # what a running writer has written and not committed is younger than what is vacuumed
            writer.open().advance()

    def _delete(self) -> None:
        first, last = sorted(self._rng.choices(range(self._next_id), k=2))
        DeltaTable(self._table).delete(f"id >= {first} AND id < {min(last, first + 50)}")
        self._forget(key for key in list(self._model) if first <= key < min(last, first + 50))

    def _forget(self, keys: Iterable[int]) -> None:
        for key in list(keys):
            self._model.pop(key, None)

    def _update(self) -> None:
        rest = self._rng.randrange(50)
        DeltaTable(self._table).update(updates={"value": "'updated'"}, predicate=f"id % 50 = {rest}")
        self._model |= {key: (*row[:3], "updated") for key, row in self._model.items() if key % 50 == rest}

    def _append(self) -> None:
        rows = [self._new_row() for _ in range(20)]
        open_plain_engine(self._table).append(_table_of(rows), "append", self._sequence)
        self._model |= {row[0]: row for row in rows}

    def _rewrite(self) -> None:
        rows = [self._new_row(key) for key in self._some(30)]
        (
            DeltaTable(self._table)
            .merge(_table_of(rows), "t.id = s.id", source_alias="s", target_alias="t")
            .when_matched_update_all()
            .execute()
        )
        self._model |= {row[0]: row for row in rows}

    def _optimize(self) -> None:
        way = self._rng.choice(["compact", "compact by deltalake", "z-order"])
        if way == "compact":
            open_plain_engine(self._table).compact()
        elif way == "z-order":
            open_plain_engine(self._table).compact(["seq"])
        else:
            DeltaTable(self._table).optimize.compact()

    def _restore(self) -> None:
        older = sorted(self._versions)[:-1]
        if older:
            version = self._rng.choice(older)
            DeltaTable(self._table).restore(version)
            self._model = dict(self._versions[version])
            self.counts["restored"] += 1

    def _by_spark(self) -> None:
        name = f"delta.`{self._table}`"
        way = self._rng.choice(["DELETE", "OPTIMIZE", "REORG"])
        if way == "OPTIMIZE":
            self._spark.sql(f"OPTIMIZE {name}").collect()
        elif way == "REORG":
            self._spark.sql(f"REORG TABLE {name} APPLY (PURGE)").collect()
        else:
            rest = self._rng.randrange(40)
            self._spark.sql(f"DELETE FROM {name} WHERE id % 40 = {rest}").collect()
            self._forget(key for key in list(self._model) if key % 40 == rest)
        self.counts["by Spark"] += 1

    def _damage(self) -> None:
        """Damage a vector of a copy: an error names its file."""
        snapshot = LogSnapshot.read(self._table)
        vectors = [file.vector for file in _in_order(snapshot) if file.vector is not None and file.vector.storage == "u"]
        if not vectors:
            return
        vector = self._rng.choice(vectors)
        copy = self._table.with_name("copy")
        shutil.copytree(self._table, copy)
        file = copy / str(vector.path)
        if self._rng.random() < 0.3:
            file.unlink()
        else:
            content = bytearray(file.read_bytes())
            at = (vector.offset or 0) + self._rng.randrange(vector.size_bytes + 8)
            content[at] ^= 1 << self._rng.randrange(8)
            file.write_bytes(content)
        try:
            rows = _rows_of(LogSnapshot.read(copy))
        except StorageError as error:
            if file.name not in str(error):
                raise
            self.counts["damaged"] += 1
        else:
            raise AssertionError(f"{len(rows)} rows of a damaged vector")
        finally:
            shutil.rmtree(copy)

    def _note(self, step: str) -> None:
        version = DeltaTable(self._table).version()
        self.trail.append(f"{step}: version {version}, {len(self._model)} rows")
        self._versions[version] = dict(self._model)
        self._compare({"deltalake": rows_by_deltalake} if self._rng.random() < 0.3 else {})

    def _compare(self, readers: dict[str, Reader]) -> None:
        """Compare the rows of a fresh and an old snapshot, and by other readers, with the model."""
        expected = sorted(self._model.values())
        fresh = LogSnapshot.read(self._table)
        old = self._rng.choice(self._writers).open()
        old.advance()
        assert _described(old) == _described(fresh), "a snapshot that advanced, and a fresh one"
        assert _rows_of(fresh) == expected, "by a fresh snapshot"
        for name, read in readers.items():
            assert sorted(read(self._table)) == expected, f"by {name}"
            self.counts[f"compared with {name}"] += 1


def _in_order(snapshot: LogSnapshot) -> list[DataFile]:
    """Return the live files by their rows, since their names are random."""
    return sorted(snapshot.files.values(), key=lambda file: (file.stats.get("minValues", {}).get("id", -1), file.size))


def _transactions(commit: bytes) -> list[dict[str, Any]]:
    return [action["txn"] for line in commit.splitlines() if "txn" in (action := json.loads(line))]


def _described(snapshot: LogSnapshot) -> Any:
    """Return what a snapshot knows; Spark's checkpoints spell statistics and other fields of files as they like."""
    files = {path: (file.vector, file.rows, file.size, file.partition_values) for path, file in snapshot.files.items()}
    return files, snapshot.transactions, snapshot.protocol, snapshot.configuration


def _rows_of(snapshot: LogSnapshot) -> list[Row]:
    """Return all rows by our own reading, sorted."""
    found = []
    for file in snapshot.files.values():
        gone = snapshot.deleted_rows([file]).get(file.path, np.empty(0, np.uint32))
        rows = pa.concat_tables(read_batches(snapshot, file))
        if snapshot.partition_columns:
            values = pa.array([file.partition_values["city"]] * rows.num_rows, pa.string())
            rows = rows.append_column("city", values)
        stays = np.ones(rows.num_rows, np.bool_)
        stays[gone.astype(np.int64)] = False
        found += _rows(rows.filter(pa.array(stays)))
    return sorted(found)


def _rows(rows: pa.Table) -> list[Row]:
    return list(zip(*(rows[name].to_pylist() for name in _SCHEMA.names), strict=True))


def _table_of(rows: Iterable[Row]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(_SCHEMA)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA)
