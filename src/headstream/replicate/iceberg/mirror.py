"""The mirror of one Delta table: an Iceberg table whose newest snapshot has the files of the newest Delta version.

    Delta's log  ->  files that the snapshot should have  -  files that it has  =  one Iceberg commit

The snapshot's summary names the Delta version. What a crash or a failing catalog has left out is in the next difference; a commit
that another process has made first is refused by the catalog, and the difference is computed again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headstream.errors import HeadstreamError, ReplicateError, StorageError
from headstream.replicate.iceberg.access import (
    FileFacts,
    Manifests,
    NextSnapshot,
    commit,
    expire,
    file_location,
    make_file,
    new_snapshot_id,
)
from headstream.replicate.iceberg.cleaning import Cleaning
from headstream.replicate.iceberg.files import WantedFiles, describe_data, metadata_location, write_deletes
from headstream.replicate.iceberg.schema import NAME_MAPPING, IcebergSchema, derive_schema
from headstream.replicate.storage.delta_log import LogSnapshot
from headstream.replicate.storage.places import Place, StorePlace

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

__all__ = ["DELTA_VERSION", "Difference", "TableMirror"]

_LOGGER: Final = logging.getLogger("headstream.replicate")
DELTA_VERSION: Final = "headstream.delta-version"
"""Property of a snapshot's summary: the Delta version that it equals."""
_DELTA_ID: Final = "headstream.delta-table-id"
"""Property of the table: the id of the Delta table, which its log has."""
_ATTEMPTS: Final = 5
_CLEAN_EVERY: Final = 20
"""Commits between two removals of files that no snapshot needs."""
_MARGIN_MS: Final = 600_000
"""How much earlier than its commit a file's removal can be dated, milliseconds: a long merge dates it when it begins to commit."""
_ADVICE: Final = "Run: headstream replicate iceberg check --repair"


@dataclass(frozen=True, slots=True)
class Difference:
    """How an Iceberg table differs from its Delta table.

    Args:
        delta_version: The newest Delta version.
        iceberg_version: The Delta version of the Iceberg table's snapshot; None for none.
        missing: Files that the snapshot lacks, those of position deletes too.
        surplus: Files that it should not have.
        delta_rows: Rows by Delta's statistics, None where those do not say.
        iceberg_rows: Rows by Iceberg's.
        reason: Why both cannot be compared; None if they were.
    """

    delta_version: int | None
    iceberg_version: int | None = None
    missing: int = 0
    surplus: int = 0
    delta_rows: int | None = None
    iceberg_rows: int | None = None
    reason: str | None = None

    @property
    def is_equal(self) -> bool:
        """Whether both have the same rows."""
        rows_fit = self.delta_rows is None or self.delta_rows == self.iceberg_rows
        return self.reason is None and not (self.missing or self.surplus) and rows_fit


class TableMirror:
    """Commits the versions of one Delta table to one Iceberg table; used by one thread at a time.

    Args:
        path: The Delta table.
        identifier: Namespace and name of the Iceberg table.
        most_snapshots: That it keeps.
        kept_us: How long a snapshot is kept at most, microseconds: vacuum may remove the files of older ones.
    """

    def __init__(self, catalog: Catalog, path: Place, identifier: tuple[str, ...], *, most_snapshots: int, kept_us: int) -> None:
        self._catalog = catalog
        self._path = path
        self._identifier = identifier
        self._most_snapshots = most_snapshots
        self._kept_ms = kept_us // 1000
        self._log: LogSnapshot | None = None
        self._paths: dict[str, frozenset[str]] = {}
        self._cleaning = Cleaning(path)

    def sync(self) -> int:
        """Make the Iceberg table's snapshot equal to the newest Delta version, and expire old snapshots; return that version.

        Raises:
            SchemaError: the Delta table has a column without an equivalent.
            ReplicateError: the Iceberg table is not this mirror's, or another writer has changed it.
            StorageError: the catalog or the store fails, or other writers were faster five times.
        """
        from pyiceberg.exceptions import CommitFailedException

        with _Translated(self._shown):
            for _ in range(_ATTEMPTS):
                log = self._advanced()
                try:
                    self._bring_up(self._loaded(log), log)
                    return log.version
                except CommitFailedException as error:
                    _LOGGER.info("%s: the commit is made again: %s", self._shown, error)
        raise StorageError(f"other writers have committed first {_ATTEMPTS} times", where=self._shown)

    def check(self) -> Difference:
        """Compare the Iceberg table with the newest Delta version, by file names and statistics."""
        try:
            with _Translated(self._shown):
                log = self._advanced()
                table = self._load()
                if table is None:
                    return Difference(log.version, reason="there is no Iceberg table")
                self._check_origin(table, log)
                if derive_schema(log, *_present(table)).schema.fields != table.schema().fields:
                    return Difference(log.version, _version_of(table), reason="the columns differ")
                return self._compare(table, log)
        except HeadstreamError as error:
            return Difference(None if self._log is None else self._log.version, reason=str(error))

    def repair(self) -> int:
        """Make the Iceberg table anew from the Delta table, without its older snapshots; return the Delta version.

        Raises:
            ReplicateError: there is an Iceberg table of that name that Headstream did not make.
        """
        from pyiceberg.exceptions import NoSuchTableError

        with _Translated(self._shown):
            try:
                found = self._load()
            except (OSError, ValueError) as error:
                _LOGGER.warning("%s: its metadata cannot be read and is replaced: %s", self._shown, error)
            else:
                if found is not None and _DELTA_ID not in found.properties:
                    raise ReplicateError(
                        "Headstream did not make this Iceberg table", where=self._shown, advice="Drop it yourself"
                    )
            try:
                self._catalog.drop_table(self._identifier)
            except NoSuchTableError:
                pass
        self._paths = {}
        return self.sync()

    @property
    def _shown(self) -> str:
        return ".".join(self._identifier)

    def _advanced(self) -> LogSnapshot:
        if self._log is None:
            self._log = LogSnapshot.read(self._path)
        else:
            self._log.advance()
        return self._log

    def _load(self) -> Table | None:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog.load_table(self._identifier)
        except NoSuchTableError:
            return None

    def _loaded(self, log: LogSnapshot) -> Table:
        """Return the Iceberg table, made if there is none."""
        from pyiceberg.exceptions import TableAlreadyExistsError

        table = self._load()
        if table is None:
            wanted = derive_schema(log, None, 0, None)
            namespace = self._identifier[:-1]
            for level in range(1, len(namespace) + 1):
                self._catalog.create_namespace_if_not_exists(namespace[:level])
            if not isinstance(self._path, StorePlace):
                (self._path / metadata_location(log).rpartition("/")[2]).mkdir(exist_ok=True)
            try:
                table = self._catalog.create_table(
                    self._identifier,
                    wanted.schema,
                    location=file_location(self._path),
                    partition_spec=wanted.spec,
                    properties=self._properties(log, wanted),
                )
            except TableAlreadyExistsError:  # another mirror was faster
                table = self._catalog.load_table(self._identifier)
        self._check_origin(table, log)
        return table

    def _properties(self, log: LogSnapshot, wanted: IcebergSchema) -> dict[str, str]:
        return {
            "format-version": "2",
            "gc.enabled": "false",  # the data files are Delta's
            "write.metadata.path": metadata_location(log),
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": "20",
            NAME_MAPPING: wanted.mapping,
            _DELTA_ID: str(log.metadata["id"]),
        }

    def _check_origin(self, table: Table, log: LogSnapshot) -> None:
        if table.properties.get(_DELTA_ID) != log.metadata["id"]:
            raise ReplicateError(
                f"the Iceberg table is not made from the Delta table at {self._path}", where=self._shown, advice=_ADVICE
            )
        snapshot = table.current_snapshot()
        if snapshot is not None and _version(snapshot) is None:
            raise ReplicateError(
                f"another writer has committed snapshot {snapshot.snapshot_id}", where=self._shown, advice=_ADVICE
            )
        if snapshot is not None and (_version(snapshot) or 0) > log.version:
            raise ReplicateError(
                f"the Iceberg table has Delta version {_version(snapshot)}, and the Delta table ends at {log.version}",
                where=self._shown,
                advice=_ADVICE,
            )

    def _manifests(self, table: Table) -> tuple[Manifests, Manifests]:
        snapshot = table.current_snapshot()
        found = [] if snapshot is None else snapshot.manifests(table.io)
        data, deletes = (Manifests(table.io, found, self._paths, deletes=kind) for kind in (False, True))
        self._paths = {**data.paths, **deletes.paths}
        return data, deletes

    def _bring_up(self, table: Table, log: LogSnapshot) -> None:
        snapshot = table.current_snapshot()
        if snapshot is not None and _version(snapshot) == log.version:
            expired = self._expired(table)
            if expired:
                expire(self._catalog, table, expired)
            return
        schema = derive_schema(log, *_present(table))
        data, deletes = self._manifests(table)
        wanted = WantedFiles.of(log)
        live, live_deletes = data.live, deletes.live
        if schema.replaced and live & wanted.data.keys():
            raise ReplicateError(
                f"column {schema.replaced[0]!r} has another type, and files with the old one", where=self._shown, advice=_ADVICE
            )
        if snapshot is not None and table.spec().fields != schema.spec.fields:
            raise ReplicateError("the files are partitioned by other columns", where=self._shown, advice=_ADVICE)
        added = [describe_data(log, schema, at, file) for at, file in wanted.data.items() if at not in live]
        lacking = {at: file for at, file in wanted.deletes.items() if at not in live_deletes}
        new_deletes = list(write_deletes(log, schema, table.io, lacking))
        removed, removed_deletes = live - wanted.data.keys(), live_deletes - wanted.deletes.keys()
        number, spec = new_snapshot_id(table), schema.spec
        if spec.fields == table.spec().fields:
            spec = table.spec()
        parts = []
        for manifests, more, gone in ((data, added, removed), (deletes, new_deletes, removed_deletes)):
            files = [make_file(facts, deletes=manifests is deletes) for facts in more]
            parts += manifests.replaced(table, schema.schema, spec, number, files, gone)
        old = [each.snapshot_id for each in table.metadata.snapshots if each.snapshot_id != number]
        following = NextSnapshot(
            id=number,
            manifests=parts,
            operation=_operation(added, new_deletes, removed, removed_deletes),
            summary={DELTA_VERSION: str(log.version), **_totals(wanted, log, added, new_deletes, removed, removed_deletes)},
            schema=None if schema.schema.schema_id == table.schema().schema_id else schema.schema,
            spec=None if spec is not schema.spec else spec,
            properties={NAME_MAPPING: schema.mapping} if schema.mapping != table.properties.get(NAME_MAPPING) else {},
            expired=old if schema.replaced else self._expired(table, more=1),
        )
        commit(self._catalog, table, following)
        if (table.metadata.next_sequence_number()) % _CLEAN_EVERY == 0:
            self.clean()

    def clean(self) -> None:
        """Remove the files below the table's directory for Iceberg that no snapshot needs any more."""
        table = self._load()
        if table is not None:
            self._cleaning.run(table, self._paths)

    def _expired(self, table: Table, *, more: int = 0) -> list[int]:
        """Return the snapshots to remove: too old, or too many; never those that a branch or tag names.

        Args:
            more: Snapshots that are about to be added.
        """
        named = {ref.snapshot_id for name, ref in table.metadata.refs.items() if name != "main"}
        found = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0, reverse=True)
        oldest_ms = time.time_ns() // 1_000_000 - self._kept_ms + _MARGIN_MS
        return [
            each.snapshot_id
            for place, each in enumerate(found, start=more)
            if place > 0 and each.snapshot_id not in named and (place >= self._most_snapshots or each.timestamp_ms < oldest_ms)
        ]

    def _compare(self, table: Table, log: LogSnapshot) -> Difference:
        data, deletes = self._manifests(table)
        wanted = WantedFiles.of(log)
        pairs = ((data.live, wanted.data.keys()), (deletes.live, wanted.deletes.keys()))
        rows = sum(file.record_count for file in data.live_files()) - sum(file.record_count for file in deletes.live_files())
        counts = [file.rows for file in log.files.values()]
        known = [count for count in counts if count is not None]
        return Difference(
            log.version,
            _version_of(table),
            missing=sum(len(should - has) for has, should in pairs),
            surplus=sum(len(has - should) for has, should in pairs),
            delta_rows=sum(known) - sum(file.deleted for file in log.files.values()) if len(known) == len(counts) else None,
            iceberg_rows=rows,
        )


def _present(table: Table) -> tuple[Any, int, str | None]:
    return table.schema(), table.metadata.last_column_id, table.properties.get(NAME_MAPPING)


def _version(snapshot: Snapshot) -> int | None:
    found = None if snapshot.summary is None else snapshot.summary.additional_properties.get(DELTA_VERSION)
    return None if found is None else int(found)


def _version_of(table: Table) -> int | None:
    snapshot = table.current_snapshot()
    return None if snapshot is None else _version(snapshot)


def _operation(added: Sequence[FileFacts], new_deletes: Sequence[FileFacts], removed: set[str], removed_deletes: set[str]) -> str:
    if added and not (removed or new_deletes or removed_deletes):
        return "append"
    return "overwrite" if added or removed_deletes else "delete"


def _totals(
    wanted: WantedFiles,
    log: LogSnapshot,
    added: Sequence[FileFacts],
    new_deletes: Sequence[FileFacts],
    removed: set[str],
    removed_deletes: set[str],
) -> Mapping[str, str]:
    """Return the counts of a snapshot's summary."""
    found = {
        "added-data-files": len(added),
        "added-records": sum(facts.rows for facts in added),
        "added-files-size": sum(facts.size for facts in (*added, *new_deletes)),
        "added-position-delete-files": len(new_deletes),
        "added-position-deletes": sum(facts.rows for facts in new_deletes),
        "deleted-data-files": len(removed),
        "removed-position-delete-files": len(removed_deletes),
    }
    totals = {
        "total-data-files": len(wanted.data),
        "total-delete-files": len(wanted.deletes),
        "total-position-deletes": sum(file.deleted for file in wanted.deletes.values()),
        "total-equality-deletes": 0,
        "total-files-size": sum(file.size for file in log.files.values()),
    }
    counts = [file.rows for file in log.files.values()]
    if None not in counts:
        totals["total-records"] = sum(count or 0 for count in counts)
    return {name: str(count) for name, count in {**{n: c for n, c in found.items() if c}, **totals}.items()}


class _Translated:
    """Converts the exceptions of pyiceberg and of its catalogs into a StorageError; not a commit that others have forestalled."""

    def __init__(self, shown: str) -> None:
        self._shown = shown

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, HeadstreamError):
            raise StorageError(f"the Iceberg table cannot be brought up to date: {error}", where=self._shown) from error
