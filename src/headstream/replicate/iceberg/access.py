"""Uses of pyiceberg beyond its documented API: reading and writing manifests, commits of several updates, timeouts.

pyiceberg's own appends and overwrites read the footers of data files, do not write position deletes, and commit a snapshot, a
schema and the expiry of snapshots separately. This module makes one commit. It uses internals of pyiceberg, which can differ in
other versions; run/mirrors.py lists the tested versions.
"""

from __future__ import annotations

import functools
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pyiceberg.catalog import AVAILABLE_CATALOGS, Catalog, CatalogType
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot, Summary
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCurrentSchemaId,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)
from pyiceberg.typedef import Record
from requests import Session

ANSWER_S: Final = 90.0
"""Timeout of a REST catalog's response, seconds; longer than the wait at the end of a run, so a run waits for one table only."""
_FORMAT: Final = 2
_MOST_ENTRIES: Final = 1000
"""Maximum number of files per manifest; a change of one file rewrites the entries of all files."""
_MOST_SMALL: Final = 20
"""Number of manifests with less than half of _MOST_ENTRIES files above which the next commit merges them."""


class _RestCatalog(RestCatalog):
    """pyiceberg's REST catalog with a timeout for requests."""

    def _create_session(self) -> Session:
        session = super()._create_session()
        vars(session)["request"] = functools.partial(session.request, timeout=ANSWER_S)
        return session


def limit_answers() -> None:
    """Make pyiceberg's load_catalog() open REST catalogs with a timeout for requests."""
    AVAILABLE_CATALOGS[CatalogType.REST] = lambda name, properties: _RestCatalog(name, **properties)


class FileStats(NamedTuple):
    """Column statistics of a file by field id: null counts, and bounds in Iceberg's binary form."""

    nulls: Mapping[int, int]
    lower: Mapping[int, bytes]
    upper: Mapping[int, bytes]


def make_file(location: str, size: int, rows: int, partition: Sequence[Any], stats: FileStats, *, deletes: bool) -> DataFile:
    """Return a file as the data of a manifest entry.

    Args:
        size: Size of the file, bytes.
        rows: Number of rows or of deleted positions.
        partition: Values of the partition fields, in order.
    """
    unknown = ("column_sizes", "nan_value_counts", "key_metadata", "split_offsets", "equality_ids", "sort_order_id")
    others: dict[str, Any] = dict.fromkeys(unknown)
    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES if deletes else DataFileContent.DATA,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(*partition),
        record_count=rows,
        file_size_in_bytes=size,
        value_counts=dict.fromkeys(stats.nulls, rows) or None,
        null_value_counts=dict(stats.nulls) or None,
        lower_bounds=dict(stats.lower) or None,
        upper_bounds=dict(stats.upper) or None,
        **others,
    )


class _DeletesWriter(ManifestWriterV2):
    """Writes manifests of position deletes, which pyiceberg can only read."""

    def content(self) -> ManifestContent:
        """Return the content of the manifest: deletes."""
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class Manifests:
    """The manifests of one snapshot with one kind of content (data files or position deletes), as a base for new manifests.

    Args:
        paths: Path of a manifest -> paths of its live files; manifests that are not in `paths` are read.
    """

    def __init__(
        self, table: Table, found: Iterable[ManifestFile], paths: Mapping[str, frozenset[str]], *, deletes: bool
    ) -> None:
        self._table = table
        self._deletes = deletes
        content = ManifestContent.DELETES if deletes else ManifestContent.DATA
        self._found = [manifest for manifest in found if manifest.content == content]
        self.paths: dict[str, frozenset[str]] = {}
        for manifest in self._found:
            known = paths.get(manifest.manifest_path)
            if known is None:
                known = frozenset(entry.data_file.file_path for entry in self._read(manifest))
            self.paths[manifest.manifest_path] = known

    @property
    def live(self) -> set[str]:
        """The paths of all live files."""
        return set().union(*self.paths.values())

    def count_rows(self) -> int:
        """Return the number of rows or positions of all live files."""
        return sum(entry.data_file.record_count for manifest in self._found for entry in self._read(manifest))

    def replaced(
        self, schema: Schema, spec: PartitionSpec, snapshot_id: int, added: Sequence[DataFile], removed: set[str]
    ) -> list[ManifestFile]:
        """Write new manifests; return the manifests of the next snapshot.

        Args:
            spec: The partition spec of the added files.
            removed: Paths of live files that the next snapshot must not have.
        """
        small = [each for each in self._found if len(self.paths[each.manifest_path]) < _MOST_ENTRIES // 2]
        joined = {each.manifest_path for each in small} if len(small) > _MOST_SMALL else set()
        kept: list[ManifestFile] = []
        entries: list[tuple[str, ManifestEntry]] = []  # the writer's method, and the entry to write
        for manifest in self._found:
            if manifest.manifest_path in joined or self.paths[manifest.manifest_path] & removed:
                found = self._read(manifest)
                entries += [("delete" if each.data_file.file_path in removed else "existing", each) for each in found]
            else:
                kept.append(manifest)
        entries += [("add", ManifestEntry.from_args(sequence_number=None, data_file=file)) for file in added]
        parts = [entries[begin : begin + _MOST_ENTRIES] for begin in range(0, len(entries), _MOST_ENTRIES)]
        return kept + [self._write(schema, spec, snapshot_id, part) for part in parts]

    def _write(
        self, schema: Schema, spec: PartitionSpec, snapshot_id: int, entries: Sequence[tuple[str, ManifestEntry]]
    ) -> ManifestFile:
        location = self._table.location_provider().new_metadata_location(f"{uuid.uuid4()}-m0.avro")
        kind = _DeletesWriter if self._deletes else ManifestWriterV2
        with kind(spec, schema, self._table.io.new_output(location), snapshot_id, "deflate") as writer:
            for method, entry in entries:
                getattr(writer, method)(entry)
        self.paths[location] = frozenset(entry.data_file.file_path for method, entry in entries if method != "delete")
        return writer.to_manifest_file()

    def _read(self, manifest: ManifestFile) -> list[ManifestEntry]:
        return manifest.fetch_manifest_entry(self._table.io, discard_deleted=True)


def commit(
    catalog: Catalog,
    table: Table,
    snapshot_id: int,
    manifests: Sequence[ManifestFile],
    summary: Summary,
    *,
    schema: Schema | None,
    spec: PartitionSpec | None,
    properties: Mapping[str, str],
    expired: Sequence[int],
) -> None:
    """Commit a snapshot after the table's current snapshot.

    Args:
        schema: The new current schema, whose id identifies an existing or a new schema of the table; None: unchanged.
        spec: The new partition spec; None: unchanged.

    Raises:
        pyiceberg's CommitFailedException: the table was changed after it was loaded.
    """
    metadata, parent = table.metadata, table.metadata.current_snapshot_id
    sequence = metadata.next_sequence_number()
    location = table.location_provider().new_metadata_location(f"snap-{snapshot_id}-0-{uuid.uuid4()}.avro")
    with write_manifest_list(_FORMAT, table.io.new_output(location), snapshot_id, parent, sequence, "deflate") as writer:
        writer.add_manifests(list(manifests))
    described = {
        "snapshot-id": snapshot_id,
        "parent-snapshot-id": parent,
        "sequence-number": sequence,
        # Times of snapshots must never decrease, even if another machine's clock is ahead.
        "timestamp-ms": max(metadata.last_updated_ms, time.time_ns() // 1_000_000),
        "manifest-list": location,
        "summary": summary,
        "schema-id": metadata.current_schema_id if schema is None else schema.schema_id,
    }
    ref = {"ref-name": MAIN_BRANCH, "type": SnapshotRefType.BRANCH, "snapshot-id": snapshot_id}
    updates: list[TableUpdate] = []
    if schema is not None:
        is_known = any(known.schema_id == schema.schema_id for known in metadata.schemas)
        updates += [] if is_known else [AddSchemaUpdate(schema=schema)]
        updates.append(SetCurrentSchemaUpdate.model_validate({"schema-id": schema.schema_id}))
    updates += [] if spec is None else [AddPartitionSpecUpdate(spec=spec), SetDefaultSpecUpdate()]
    updates += [SetPropertiesUpdate(updates=dict(properties))] if properties else []
    updates += [AddSnapshotUpdate(snapshot=Snapshot.model_validate(described)), SetSnapshotRefUpdate.model_validate(ref)]
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId.model_validate({"ref": MAIN_BRANCH, "snapshot-id": parent}),
        AssertCurrentSchemaId.model_validate({"current-schema-id": metadata.current_schema_id}),
    )
    catalog.commit_table(table, requirements, (*updates, *_removal(expired)))


def expire(catalog: Catalog, table: Table, snapshot_ids: Sequence[int]) -> None:
    """Remove snapshots from a table in one commit; their files stay."""
    catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), _removal(snapshot_ids))


def _removal(snapshot_ids: Sequence[int]) -> tuple[TableUpdate, ...]:
    return (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": list(snapshot_ids)}),) if snapshot_ids else ()
