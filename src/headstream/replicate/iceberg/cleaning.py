"""The removal of Iceberg's own files that no snapshot needs: old metadata, manifests, position deletes, and remains of crashes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pyarrow.fs as pafs
from deltalake.fs import DeltaStorageHandler

from headstream.replicate.iceberg.files import FOLDER
from headstream.replicate.storage.delta_places import delta_options
from headstream.replicate.storage.places import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

__all__ = ["Cleaning"]

_LEAST_AGE_S: Final = 3600.0
"""Younger files can be those of a commit under way, or of a reader that has just begun."""


class Cleaning:
    """Removes files of one table.

    Args:
        path: The Delta table.
    """

    def __init__(self, path: Place) -> None:
        self._path = path
        self._lists: dict[int, list[str]] = {}
        self._deletes: dict[str, frozenset[str]] = {}

    def run(self, table: Table, paths: Mapping[str, frozenset[str]], *, least_age_s: float = _LEAST_AGE_S) -> int:
        """Remove what is old and not needed; return the number of files.

        Args:
            table: As it was just loaded.
            paths: Path of a manifest -> its files, as far as known; others are read.
            least_age_s: How old a file must be, seconds.
        """
        needed = self._needed(table, paths)
        files = pafs.PyFileSystem(DeltaStorageHandler(str(self._path), delta_options(self._path)))
        limit = time.time() - least_age_s
        count = 0
        for info in files.get_file_info(pafs.FileSelector(FOLDER, allow_not_found=True)):
            is_old = info.mtime is not None and info.mtime.timestamp() <= limit
            if info.type == pafs.FileType.File and is_old and info.base_name not in needed:
                files.delete_file(info.path)
                count += 1
        return count

    def _needed(self, table: Table, paths: Mapping[str, frozenset[str]]) -> set[str]:
        """Return the names of the files that the table's metadata names, in all of its snapshots."""
        from pyiceberg.manifest import ManifestContent

        metadata = table.metadata
        needed = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
        needed |= {each.manifest_list for each in metadata.snapshots}
        needed |= {each.statistics_path for each in metadata.statistics}
        lists, deletes = {}, {}
        for snapshot in metadata.snapshots:
            if snapshot.snapshot_id in self._lists:
                lists[snapshot.snapshot_id] = self._lists[snapshot.snapshot_id]
            else:
                found = snapshot.manifests(table.io)
                lists[snapshot.snapshot_id] = [each.manifest_path for each in found]
                for manifest in found:
                    if manifest.content == ManifestContent.DELETES and manifest.manifest_path not in self._deletes:
                        known = paths.get(manifest.manifest_path)
                        self._deletes[manifest.manifest_path] = known if known is not None else frozenset(
                            entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)
                        )  # fmt: skip
            for path in lists[snapshot.snapshot_id]:
                needed.add(path)
                if path in self._deletes:
                    deletes[path] = self._deletes[path]
                    needed |= deletes[path]
        self._lists, self._deletes = lists, deletes
        return {path.rpartition("/")[2] for path in needed}
