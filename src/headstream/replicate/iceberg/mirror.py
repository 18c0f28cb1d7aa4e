"""The mirror of one Delta table: an Iceberg table whose newest snapshot has the files of the newest Delta version.

    Delta's log  ->  expected files of the snapshot  -  actual files  =  one Iceberg commit

The snapshot's summary has the Delta version. The next difference includes changes that were missed because of a crash or a
failing catalog. If another process has committed first, the catalog refuses the commit, and the difference is recomputed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, TableAlreadyExistsError
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary

from headstream.errors import HeadstreamError, ReplicateError, StorageError
from headstream.replicate.iceberg.access import Manifests, commit, expire
from headstream.replicate.iceberg.cleaning import Cleaning
from headstream.replicate.iceberg.files import FOLDER, WantedFiles, describe_data, locate, write_deletes
from headstream.replicate.iceberg.schema import NAME_MAPPING, derive_schema
from headstream.replicate.storage.delta_log import LogSnapshot
from headstream.replicate.storage.places import Place, StorePlace

_LOGGER: Final = logging.getLogger("headstream.replicate")
DELTA_VERSION: Final = "headstream.delta-version"
"""Property of a snapshot's summary: the corresponding Delta version."""
_FILES: Final = "headstream.files"
"""Property of a snapshot's summary: WantedFiles.digest, since a restored Delta log can have other files at the same version."""
_DELTA_ID: Final = "headstream.delta-table-id"
"""Property of the Iceberg table: the id of the Delta table in its log."""
_ATTEMPTS: Final = 5
_CLEAN_EVERY: Final = 20
"""Number of commits between two removals of files that no snapshot needs."""
_MARGIN_MS: Final = 600_000
"""Maximum time from a file's removal timestamp to the commit, milliseconds; a merge sets the timestamp before the commit."""
_ADVICE: Final = "Run: headstream replicate iceberg check --repair"


class Difference(NamedTuple):
    """The difference between an Iceberg table and its Delta table.

    Args:
        delta_version: The newest Delta version; None if it cannot be read.
        iceberg_version: The Delta version of the Iceberg table's snapshot, or None.
        missing: Files that the snapshot lacks, including position deletes.
        surplus: Files that the snapshot should not have.
        delta_rows: Number of rows in Delta's statistics; None if unknown.
        iceberg_rows: Number of rows in Iceberg's statistics; None if unknown.
        reason: The reason why the tables could not be compared, or None.
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
        """Whether both tables have the same rows."""
        rows_fit = self.delta_rows in (None, self.iceberg_rows)
        return self.reason is None and not (self.missing or self.surplus) and rows_fit


class TableMirror:
    """Commits the versions of one Delta table to one Iceberg table; not thread-safe.

    Args:
        most_snapshots: Maximum number of snapshots to keep.
        kept_us: Maximum age of a snapshot, microseconds, because vacuum can remove the files of older snapshots.
    """

    def __init__(self, catalog: Catalog, path: Place, identifier: tuple[str, ...], *, most_snapshots: int, kept_us: int) -> None:
        self._catalog = catalog
        self._path = path
        self._identifier = identifier
        self._shown = ".".join(identifier)
        self._most_snapshots = most_snapshots
        self._kept_ms = kept_us // 1000
        self._log: LogSnapshot | None = None
        self._paths: dict[str, frozenset[str]] = {}
        self._cleaning = Cleaning(path)

    def sync(self) -> int:
        """Make the Iceberg table equal to the newest Delta version, and expire old snapshots; return the Delta version.

        Raises:
            SchemaError: the Delta table has a column without an equivalent.
            ReplicateError: the Iceberg table does not belong to this mirror, or another writer has changed the table.
            StorageError: the catalog or the store fails, or other writers were faster five times.
        """
        with _translated(self._shown):
            for _ in range(_ATTEMPTS):
                log = self._advanced()
                try:
                    self._bring_up(self._loaded(log), log)
                    return log.version
                except CommitFailedException as error:
                    _LOGGER.info("%s: retrying the commit: %s", self._shown, error)
        raise StorageError(f"other writers changed the table during each of {_ATTEMPTS} attempts to commit", where=self._shown)

    def check(self) -> Difference:
        """Compare the Iceberg table with the newest Delta version, by file names and statistics."""
        try:
            with _translated(self._shown):
                log = self._advanced()
                table = self._load()
                if table is None:
                    return Difference(log.version, reason="there is no Iceberg table")
                self._check_origin(table, log)
                return self._compare(table, log)
        except HeadstreamError as error:
            return Difference(None if self._log is None else self._log.version, reason=str(error))

    def repair(self) -> int:
        """Recreate the Iceberg table from the Delta table, without older snapshots; return the Delta version.

        Raises:
            ReplicateError: an Iceberg table with this name exists that Headstream did not create.
        """
        with _translated(self._shown):
            try:
                found = self._load()
            except (OSError, ValueError) as error:
                _LOGGER.warning("%s: the metadata cannot be read and is replaced: %s", self._shown, error)
            else:
                if found is not None and _DELTA_ID not in found.properties:
                    what = "Headstream did not create this Iceberg table"
                    raise ReplicateError(what, where=self._shown, advice="Drop the table manually")
            with suppress(NoSuchTableError):
                self._catalog.drop_table(self._identifier)
        self._paths = {}
        return self.sync()

    def clean(self) -> None:
        """Remove the files in the Iceberg directory that no snapshot needs."""
        table = self._load()
        if table is not None:
            self._cleaning.run(table)

    def _advanced(self) -> LogSnapshot:
        if self._log is None:
            self._log = LogSnapshot.read(self._path)
        else:
            self._log.advance()
        return self._log

    def _load(self) -> Table | None:
        try:
            return self._catalog.load_table(self._identifier)
        except NoSuchTableError:
            return None

    def _loaded(self, log: LogSnapshot) -> Table:
        """Return the Iceberg table, creating it if it does not exist."""
        table = self._load()
        if table is None:
            wanted = derive_schema(log, None, 0, None)
            for level in range(1, len(self._identifier)):
                self._catalog.create_namespace_if_not_exists(self._identifier[:level])
            if not isinstance(self._path, StorePlace):
                (self._path / FOLDER).mkdir(exist_ok=True)
            properties = {
                "format-version": "2",
                "gc.enabled": "false",  # the data files belong to Delta
                "write.metadata.path": locate(self._path, FOLDER),
                "write.metadata.delete-after-commit.enabled": "true",
                "write.metadata.previous-versions-max": "20",
                NAME_MAPPING: wanted.mapping,
                _DELTA_ID: str(log.metadata["id"]),
            }
            # Without partitions, since a creation renumbers the columns: the first commit sets the numbers and the partitions.
            try:
                table = self._catalog.create_table(self._identifier, wanted.schema, locate(self._path), properties=properties)
            except TableAlreadyExistsError:  # another mirror was faster
                table = self._catalog.load_table(self._identifier)
        self._check_origin(table, log)
        return table

    def _check_origin(self, table: Table, log: LogSnapshot) -> None:
        snapshot, version = table.current_snapshot(), _version_of(table)
        problem = None
        if table.properties.get(_DELTA_ID) != log.metadata["id"]:
            problem = f"the Iceberg table was not created from the Delta table at {self._path}"
        elif snapshot is not None and version is None:
            problem = f"another writer has committed snapshot {snapshot.snapshot_id}"
        elif version is not None and version > log.version:
            problem = f"the Iceberg table has Delta version {version}, but the newest version of the Delta table is {log.version}"
        if problem is not None:
            raise ReplicateError(problem, where=self._shown, advice=_ADVICE)

    def _manifests(self, table: Table) -> tuple[Manifests, Manifests]:
        snapshot = table.current_snapshot()
        found = [] if snapshot is None else snapshot.manifests(table.io)
        data, deletes = (Manifests(table, found, self._paths, deletes=kind) for kind in (False, True))
        self._paths = {**data.paths, **deletes.paths}
        return data, deletes

    def _bring_up(self, table: Table, log: LogSnapshot) -> None:
        """Commit the difference, if any."""
        wanted = WantedFiles.of(log)
        if _version_of(table) == log.version and _property_of(table, _FILES) in (None, wanted.digest):
            if expired := self._expired(table, more=0):
                expire(self._catalog, table, expired)
            return
        schema = derive_schema(log, *_present(table))
        is_changed = schema.schema.fields != table.schema().fields
        if is_changed:
            schema = schema._replace(schema=_with_own_id(schema.schema, table.metadata.schemas))
        data, deletes = self._manifests(table)
        gone, gone_deletes = data.live - wanted.data.keys(), deletes.live - wanted.deletes.keys()
        if schema.replaced and data.live - gone:
            what = f"column {schema.replaced[0]!r} needs another field id, but existing files have the previous id"
            raise ReplicateError(what, where=self._shown, advice=_ADVICE)
        before, after = ([part.source_id for part in spec.fields] for spec in (table.spec(), schema.spec))
        is_same = before == after  # regardless of the columns' current names
        if not is_same and table.current_snapshot() is not None:
            raise ReplicateError("the existing files are partitioned by other columns", where=self._shown, advice=_ADVICE)
        live, live_deletes = data.live, deletes.live
        more = [describe_data(log, schema, at, file) for at, file in wanted.data.items() if at not in live]
        lacking = {at: file for at, file in wanted.deletes.items() if at not in live_deletes}
        more_deletes = write_deletes(log, schema, table.io, lacking)
        number, spec = table.metadata.new_snapshot_id(), table.spec() if is_same else schema.spec
        parts = data.replaced(schema.schema, spec, number, more, gone)
        parts += deletes.replaced(schema.schema, spec, number, more_deletes, gone_deletes)
        commit(
            self._catalog,
            table,
            number,
            parts,
            _summarize(log, wanted, more, more_deletes, len(gone), len(gone_deletes)),
            schema=schema.schema if is_changed else None,
            spec=None if is_same else spec,
            properties={} if schema.mapping == table.properties.get(NAME_MAPPING) else {NAME_MAPPING: schema.mapping},
            expired=[each.snapshot_id for each in table.metadata.snapshots] if schema.replaced else self._expired(table, more=1),
        )
        if table.metadata.next_sequence_number() % _CLEAN_EVERY == 0:
            self.clean()

    def _expired(self, table: Table, *, more: int) -> list[int]:
        """Return the snapshots that are too old, or too many with `more` new snapshots; never the newest or a named snapshot."""
        named = {ref.snapshot_id for name, ref in table.metadata.refs.items() if name != "main"}
        found = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0, reverse=True)
        oldest_ms = time.time_ns() // 1_000_000 - self._kept_ms + _MARGIN_MS
        aged = [(each, place >= self._most_snapshots or each.timestamp_ms < oldest_ms) for place, each in enumerate(found, more)]
        return [each.snapshot_id for each, is_over in aged[1 - more :] if is_over and each.snapshot_id not in named]

    def _compare(self, table: Table, log: LogSnapshot) -> Difference:
        if derive_schema(log, *_present(table)).schema.fields != table.schema().fields:
            return Difference(log.version, _version_of(table), reason="the columns differ")
        data, deletes = self._manifests(table)
        wanted = WantedFiles.of(log)
        pairs = ((data.live, wanted.data.keys()), (deletes.live, wanted.deletes.keys()))
        rows = _count_rows(log)
        return Difference(
            log.version,
            _version_of(table),
            missing=sum(len(should - has) for has, should in pairs),
            surplus=sum(len(has - should) for has, should in pairs),
            delta_rows=None if rows is None else rows - sum(file.deleted for file in log.files.values()),
            iceberg_rows=data.count_rows() - deletes.count_rows(),
        )


def _present(table: Table) -> tuple[Schema, int, str | None]:
    return table.schema(), table.metadata.last_column_id, table.properties.get(NAME_MAPPING)


def _with_own_id(schema: Schema, known: Sequence[Schema]) -> Schema:
    """Return the schema with the id of an equal known schema, or with the next id, because catalogs refuse duplicates."""
    numbers = {each.schema_id: each.fields for each in known}
    own = next((number for number, fields in numbers.items() if fields == schema.fields), max(numbers) + 1)
    return schema.model_copy(update={"schema_id": own})


def _property_of(table: Table, name: str) -> str | None:
    """Return a property of the newest snapshot's summary."""
    snapshot = table.current_snapshot()
    return None if snapshot is None or snapshot.summary is None else snapshot.summary.additional_properties.get(name)


def _version_of(table: Table) -> int | None:
    found = _property_of(table, DELTA_VERSION)
    return None if found is None else int(found)


def _count_rows(log: LogSnapshot) -> int | None:
    counts = [file.rows for file in log.files.values()]
    return None if None in counts else sum(count or 0 for count in counts)


def _summarize(
    log: LogSnapshot, wanted: WantedFiles, more: list[IcebergFile], more_deletes: list[IcebergFile], gone: int, gone_deletes: int
) -> Summary:
    """Return a snapshot's summary: the operation, the Delta version, and the counts that Iceberg writers record."""
    is_append = bool(more) and not (gone or more_deletes or gone_deletes)
    operation = Operation.APPEND if is_append else Operation.OVERWRITE if more or gone_deletes else Operation.DELETE
    changed = {
        "added-data-files": len(more),
        "added-records": sum(file.record_count for file in more),
        "added-files-size": sum(file.file_size_in_bytes for file in (*more, *more_deletes)),
        "added-position-delete-files": len(more_deletes),
        "added-position-deletes": sum(file.record_count for file in more_deletes),
        "deleted-data-files": gone,
        "removed-position-delete-files": gone_deletes,
    }
    totals = {
        "total-data-files": len(wanted.data),
        "total-delete-files": len(wanted.deletes),
        "total-records": _count_rows(log),
        "total-position-deletes": sum(file.deleted for file in wanted.deletes.values()),
        "total-equality-deletes": 0,
        "total-files-size": sum(file.size for file in log.files.values()),
    }
    counts = {name: count for name, count in changed.items() if count} | totals
    texts = {name: str(count) for name, count in counts.items() if count is not None}
    return Summary(operation, **{DELTA_VERSION: str(log.version), _FILES: wanted.digest}, **texts)


@contextmanager
def _translated(shown: str) -> Iterator[None]:
    """Convert exceptions of pyiceberg and its catalogs to StorageError."""
    try:
        yield
    except HeadstreamError:
        raise
    except Exception as error:  # catalogs are implemented elsewhere, and can raise any exception
        raise StorageError(f"the Iceberg table cannot be updated: {error}", where=shown) from error
