"""Removes Iceberg files that no snapshot needs: old metadata, manifests, position deletes, and files left by crashes."""

from __future__ import annotations

import time
from typing import Final

import pyarrow.fs as pafs
from deltalake.fs import DeltaStorageHandler
from pyiceberg.manifest import ManifestContent
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from headstream.replicate.iceberg.files import FOLDER
from headstream.replicate.storage.delta_places import delta_options
from headstream.replicate.storage.places import Place

_LEAST_AGE_S: Final = 3600.0
"""Minimum age of files to remove, seconds; newer files can belong to an unfinished commit or be in use by a reader."""


class Cleaning:
    """Removes the files in one Delta table's directory that no snapshot of its Iceberg table needs."""

    def __init__(self, path: Place) -> None:
        self._path = path
        self._known: dict[str, set[str]] = {}

    def run(self, table: Table) -> None:
        """Remove old files that neither a snapshot nor the metadata refers to; `table` must be newly loaded."""
        metadata = table.metadata
        self._known = {
            each.manifest_list: self._known.get(each.manifest_list) or _names(table, each) for each in metadata.snapshots
        }
        needed = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
        statistics = {each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)}
        needed = needed.union(statistics, self._known, *self._known.values())
        names = {path.rpartition("/")[2] for path in needed}
        files = pafs.PyFileSystem(DeltaStorageHandler(str(self._path), delta_options(self._path)))
        for info in files.get_file_info(pafs.FileSelector(FOLDER, allow_not_found=True)):
            is_old = info.mtime is not None and info.mtime.timestamp() <= time.time() - _LEAST_AGE_S
            if info.type == pafs.FileType.File and is_old and info.base_name not in names:
                files.delete_file(info.path)


def _names(table: Table, snapshot: Snapshot) -> set[str]:
    """Return the names of a snapshot's manifests and position deletes."""
    found = snapshot.manifests(table.io)
    deletes = (each for each in found if each.content == ManifestContent.DELETES)
    entries = (entry for each in deletes for entry in each.fetch_manifest_entry(table.io))
    return {each.manifest_path for each in found}.union(entry.data_file.file_path for entry in entries)
