"""What is used of pyiceberg beyond its documented API: reading and writing manifests, and commits of several updates.

pyiceberg's own appends and overwrites read the footers of data files, write no position deletes, and commit a snapshot, a schema
and the expiry of snapshots one after the other. Here they are one commit. Another version of pyiceberg can change any of it:
SUPPORTED says which ones were tested.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headstream.errors import EnvironmentSetupError, MissingExtraError
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.storage.places import Place, StorePlace

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

__all__ = [
    "SUPPORTED",
    "FileFacts",
    "Manifests",
    "NextSnapshot",
    "check_pyiceberg",
    "commit",
    "expire",
    "file_location",
    "make_file",
    "new_snapshot_id",
    "open_catalog",
]

SUPPORTED: Final = "0.12"
"""The versions of pyiceberg that this module was tested with, `major.minor`."""
_FORMAT: Final = 2
_MOST_ENTRIES: Final = 1000
"""Files of one manifest: a change of one of them writes the others' entries again."""
_MOST_SMALL: Final = 20
"""Manifests of less than half as many files, beyond which the next commit joins them."""
_STORAGE: Final = {
    "s3": {
        "endpoint": "s3.endpoint", "region": "s3.region", "access_key_id": "s3.access-key-id",
        "secret_access_key": "s3.secret-access-key", "session_token": "s3.session-token",
    },
    "abfss": {
        "account_key": "adls.account-key", "sas_token": "adls.sas-token", "tenant_id": "adls.tenant-id",
        "client_id": "adls.client-id", "client_secret": "adls.client-secret",
    },
}  # fmt: skip
"""Kind of store -> setting of [storage] -> pyiceberg's property."""


def check_pyiceberg() -> None:
    """Check that pyiceberg is installed, in a tested version.

    Raises:
        MissingExtraError: it is not installed.
        EnvironmentSetupError: it has another version.
    """
    try:
        from pyiceberg import __version__
    except ImportError:
        raise MissingExtraError("pyiceberg is not installed", advice="Run: pip install 'headstream[iceberg]'") from None
    if not __version__.startswith(f"{SUPPORTED}."):
        raise EnvironmentSetupError(
            f"pyiceberg {__version__} is not a tested version",
            where="iceberg",
            advice=f"Run: pip install 'pyiceberg~={SUPPORTED}.0'",
        )


def open_catalog(settings: IcebergSettings, tables: Place) -> Catalog:
    """Open the catalog; pyiceberg's own errors are not translated.

    Args:
        tables: The place of the Delta tables: the files of Iceberg tables get the same settings of its store.
    """
    from pyiceberg.catalog import load_catalog

    given = settings.catalog_properties
    return load_catalog(settings.catalog_name, **{**_store_properties(tables), **given})


def _store_properties(place: Place) -> dict[str, str]:
    if not isinstance(place, StorePlace):
        return {}
    storage, found = place.access.resolved(), {}
    for name, prop in _STORAGE.get(place.scheme, {}).items():
        if (value := getattr(storage, name)) is not None:
            found[prop] = str(value)
    if place.scheme == "s3" and storage.path_style is False:
        found["s3.force-virtual-addressing"] = "true"
    return found


def file_location(place: Place) -> str:
    """Return the location of a table or file as Iceberg's readers take it: nothing in it is escaped."""
    return str(place) if isinstance(place, StorePlace) else f"file://{place.absolute().as_posix()}"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a manifest says of one file.

    Args:
        path: Its location.
        size: Bytes.
        rows: Rows, or deleted positions.
        partition: The values of the partition's fields, in order.
        values: Field id -> number of values, nulls too.
        nulls: Field id -> number of nulls.
        lower: Field id -> a value that none is below, as Iceberg's bytes.
        upper: Field id -> a value that none is above.
    """

    path: str
    size: int
    rows: int
    partition: Sequence[Any]
    values: Mapping[int, int]
    nulls: Mapping[int, int]
    lower: Mapping[int, bytes]
    upper: Mapping[int, bytes]


def make_file(facts: FileFacts, *, deletes: bool) -> DataFile:
    """Return a file as pyiceberg's manifests have it.

    Args:
        deletes: Whether it has position deletes, not rows.
    """
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    return DataFile.from_args(
        content=DataFileContent.POSITION_DELETES if deletes else DataFileContent.DATA,
        file_path=facts.path,
        file_format=FileFormat.PARQUET,
        partition=Record(*facts.partition),
        record_count=facts.rows,
        file_size_in_bytes=facts.size,
        column_sizes=None,
        value_counts=dict(facts.values) or None,
        null_value_counts=dict(facts.nulls) or None,
        nan_value_counts=None,
        lower_bounds=dict(facts.lower) or None,
        upper_bounds=dict(facts.upper) or None,
        key_metadata=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
    )


class Manifests:
    """The manifests of one snapshot with one content, data files or position deletes, and those of the snapshot after it.

    Args:
        found: The manifests.
        paths: Path of a manifest -> paths of its live files; those that are not there are read.
    """

    def __init__(self, io: FileIO, found: Iterable[ManifestFile], paths: Mapping[str, frozenset[str]], *, deletes: bool) -> None:
        from pyiceberg.manifest import ManifestContent

        self._io = io
        self._deletes = deletes
        content = ManifestContent.DELETES if deletes else ManifestContent.DATA
        self._found = [manifest for manifest in found if manifest.content == content]
        self.paths: dict[str, frozenset[str]] = {}
        for manifest in self._found:
            known = paths.get(manifest.manifest_path)
            self.paths[manifest.manifest_path] = known if known is not None else self._read_paths(manifest)

    @property
    def live(self) -> set[str]:
        """Paths of all live files."""
        return set().union(*self.paths.values())

    def live_files(self) -> list[DataFile]:
        """Read all live files."""
        return [entry.data_file for manifest in self._found for entry in self._read(manifest)]

    def replaced(
        self,
        table: Table,
        schema: Schema,
        spec: PartitionSpec,
        snapshot_id: int,
        added: Sequence[DataFile],
        removed: set[str],
    ) -> list[ManifestFile]:
        """Write what is new; return the manifests of the next snapshot.

        Args:
            schema: The schema of the next snapshot.
            spec: How its files are partitioned.
            added: New files.
            removed: Paths of live files that the next snapshot does not have.
        """
        from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus

        small = [each for each in self._found if len(self.paths[each.manifest_path]) < _MOST_ENTRIES // 2]
        joined = {each.manifest_path for each in small} if len(small) > _MOST_SMALL else set()
        kept, entries = [], []
        for manifest in self._found:
            if manifest.manifest_path not in joined and not (self.paths[manifest.manifest_path] & removed):
                kept.append(manifest)
                continue
            for entry in self._read(manifest):
                is_removed = entry.data_file.file_path in removed
                entries.append(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.DELETED if is_removed else ManifestEntryStatus.EXISTING,
                        snapshot_id=snapshot_id if is_removed else entry.snapshot_id,
                        sequence_number=entry.sequence_number,
                        file_sequence_number=entry.file_sequence_number,
                        data_file=entry.data_file,
                    )
                )
        entries += [
            ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED,
                snapshot_id=snapshot_id,
                sequence_number=None,
                file_sequence_number=None,
                data_file=file,
            )
            for file in added
        ]
        parts = [entries[begin : begin + _MOST_ENTRIES] for begin in range(0, len(entries), _MOST_ENTRIES)]
        return kept + [self._write(table, schema, spec, snapshot_id, part) for part in parts]

    def _write(
        self, table: Table, schema: Schema, spec: PartitionSpec, snapshot_id: int, entries: Sequence[ManifestEntry]
    ) -> ManifestFile:
        from pyiceberg.manifest import ManifestEntryStatus

        output = self._io.new_output(table.location_provider().new_metadata_location(f"{uuid.uuid4()}-m0.avro"))
        writer = _writer(output, spec, schema, snapshot_id, deletes=self._deletes)
        with writer:
            for entry in entries:
                writer.add_entry(entry)
        written: ManifestFile = writer.to_manifest_file()
        live = (entry.data_file.file_path for entry in entries if entry.status != ManifestEntryStatus.DELETED)
        self.paths[written.manifest_path] = frozenset(live)
        return written

    def _read(self, manifest: ManifestFile) -> list[ManifestEntry]:
        return manifest.fetch_manifest_entry(self._io, discard_deleted=True)

    def _read_paths(self, manifest: ManifestFile) -> frozenset[str]:
        return frozenset(entry.data_file.file_path for entry in self._read(manifest))


def _writer(output: Any, spec: PartitionSpec, schema: Schema, snapshot_id: int, *, deletes: bool) -> Any:
    from pyiceberg.manifest import ManifestContent, ManifestWriterV2

    class DeletesWriter(ManifestWriterV2):
        def content(self) -> ManifestContent:
            return ManifestContent.DELETES

        @property
        def _meta(self) -> dict[str, str]:
            return {**super()._meta, "content": "deletes"}

    return (DeletesWriter if deletes else ManifestWriterV2)(spec, schema, output, snapshot_id, "deflate")


@dataclass(frozen=True, slots=True, kw_only=True)
class NextSnapshot:
    """A snapshot to commit, with what changes together with it.

    Args:
        id: Of new_snapshot_id().
        manifests: All of its manifests.
        operation: `append`, `overwrite` or `delete`.
        summary: Properties of its summary.
        schema: The new current schema, of the next schema id; None if it stays.
        spec: The new partition spec; None if it stays.
        properties: Properties of the table that change.
        expired: Ids of snapshots that are removed.
    """

    id: int
    manifests: Sequence[ManifestFile]
    operation: str
    summary: Mapping[str, str]
    schema: Schema | None = None
    spec: PartitionSpec | None = None
    properties: Mapping[str, str]
    expired: Sequence[int] = ()


def new_snapshot_id(table: Table) -> int:
    """Return the id for a new snapshot."""
    taken = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    while (found := secrets.randbits(63)) in taken:
        pass
    return found


def commit(catalog: Catalog, table: Table, following: NextSnapshot) -> None:
    """Commit a snapshot after the table's current one.

    Raises:
        pyiceberg's CommitFailedException: the table has changed since it was loaded.
    """
    from pyiceberg.manifest import write_manifest_list
    from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
    from pyiceberg.table.snapshots import Operation, Snapshot, Summary
    from pyiceberg.table.update import (
        AddPartitionSpecUpdate,
        AddSchemaUpdate,
        AddSnapshotUpdate,
        AssertCurrentSchemaId,
        AssertRefSnapshotId,
        AssertTableUUID,
        SetCurrentSchemaUpdate,
        SetDefaultSpecUpdate,
        SetPropertiesUpdate,
        SetSnapshotRefUpdate,
        TableUpdate,
    )

    metadata, parent = table.metadata, table.metadata.current_snapshot_id
    sequence = metadata.next_sequence_number()
    location = table.location_provider().new_metadata_location(f"snap-{following.id}-0-{uuid.uuid4()}.avro")
    with write_manifest_list(_FORMAT, table.io.new_output(location), following.id, parent, sequence, "deflate") as writer:
        writer.add_manifests(list(following.manifests))
    updates: list[TableUpdate] = []
    if following.schema is not None:
        updates += [AddSchemaUpdate(schema=following.schema), SetCurrentSchemaUpdate(schema_id=-1)]
    if following.spec is not None:
        updates += [AddPartitionSpecUpdate(spec=following.spec), SetDefaultSpecUpdate(spec_id=-1)]
    if following.properties:
        updates.append(SetPropertiesUpdate(updates=dict(following.properties)))
    newest_ms = max([metadata.last_updated_ms, *(each.timestamp_ms for each in metadata.snapshots)])
    snapshot = Snapshot(
        snapshot_id=following.id,
        parent_snapshot_id=parent,
        sequence_number=sequence,
        manifest_list=location,
        summary=Summary(Operation(following.operation), **following.summary),
        schema_id=metadata.current_schema_id if following.schema is None else following.schema.schema_id,
    )
    if snapshot.timestamp_ms < newest_ms:  # another machine's clock is ahead; times of snapshots never decrease
        snapshot = snapshot.model_copy(update={"timestamp_ms": newest_ms})
    updates.append(AddSnapshotUpdate(snapshot=snapshot))
    updates.append(SetSnapshotRefUpdate(ref_name=MAIN_BRANCH, type=SnapshotRefType.BRANCH, snapshot_id=following.id))
    updates += _removal(following.expired)
    requirements = (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=parent),
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
    )
    catalog.commit_table(table, requirements, tuple(updates))


def expire(catalog: Catalog, table: Table, snapshot_ids: Sequence[int]) -> None:
    """Remove snapshots from a table, in one commit; their files stay."""
    from pyiceberg.table.update import AssertTableUUID

    catalog.commit_table(table, (AssertTableUUID(uuid=table.metadata.table_uuid),), tuple(_removal(snapshot_ids)))


def _removal(snapshot_ids: Sequence[int]) -> list[Any]:
    from pyiceberg.table.update import RemoveSnapshotsUpdate

    return [RemoveSnapshotsUpdate(snapshot_ids=list(snapshot_ids))] if snapshot_ids else []
