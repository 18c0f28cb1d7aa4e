"""Folding: rewrites small files and files with many deleted rows, without the deleted rows, in bounded steps.

    per partition:  files with >= 20 % deleted rows  +  small files of similar sizes   ->   new files, one commit

The largest folded small file is at most twice as large as all other folded small files together. So a row is rewritten only when
its file grows by half, not with each fold. deltalake's own compaction does not rewrite large files with deletion vectors.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from headstream.errors import StorageError
from headstream.replicate.engines.merge_on_read import OWN_TABLE
from headstream.replicate.storage.data_files import DataFileWriter, target_size
from headstream.replicate.storage.delta_commit import Conflict, commit_files, drop_vectors, write_checkpoint
from headstream.replicate.storage.delta_log import DataFile, LogSnapshot, merge_on_read_refusal, read_batches
from headstream.replicate.storage.delta_places import Translated
from headstream.replicate.storage.places import Place

_DELETED_SHARE: Final = 0.2
"""Share of deleted rows in a file at which the file is rewritten."""
_MOST_FILES: Final = 200
"""Number of small files and files with deletion vectors at which the table is folded before its scheduled time."""
_MOST_DELETED: Final = 0.5
"""Ratio of deleted rows to remaining rows above which the table is folded before its scheduled time."""
_STEP_BYTES: Final = 256 << 20
"""Maximum size of the files of one commit, bytes: about five seconds of work."""
COMPACTION_STEPS: Final = 16
"""Maximum number of commits of a scheduled compaction, which rewrites at most 4 GiB."""
_ATTEMPTS: Final = 5


@dataclass(frozen=True, slots=True)
class Folded:
    """The result of a fold.

    Args:
        commits: Number of commits of the fold.
        removed: Number of replaced files.
        added: Number of new files that replace the removed files.
        deleted: Number of deleted rows that were removed from files.
    """

    commits: int = 0
    removed: int = 0
    added: int = 0
    deleted: int = 0

    def __add__(self, other: Folded) -> Folded:
        return Folded(
            self.commits + other.commits, self.removed + other.removed, self.added + other.added, self.deleted + other.deleted
        )


def must_fold(snapshot: LogSnapshot) -> bool:
    """Return whether the table must be folded, by the numbers of small files, files with vectors, and deleted rows."""
    files, least_bytes = snapshot.files.values(), target_size(snapshot.configuration) // 2
    count = sum(file.vector is not None or file.size < least_bytes for file in files)
    deleted = sum(file.deleted for file in files)
    rows = sum(file.rows or 0 for file in files) - deleted
    return count >= _MOST_FILES or deleted > _MOST_DELETED * rows


def fold(
    snapshot: LogSnapshot, *, steps: int = COMPACTION_STEPS, step_bytes: int = _STEP_BYTES, all_vectors: bool = False
) -> Folded:
    """Rewrite small files and files with many deleted rows.

    Args:
        snapshot: The table, for which merge_on_read_refusal() must allow deletion vectors; advanced to the last commit.
        steps: Maximum number of commits; the next call continues the fold.
        step_bytes: Maximum size of the files of one commit, bytes; a single file can be larger.
        all_vectors: Whether to rewrite all files with vectors and no other files.

    Raises:
        StorageError: the table cannot be read or written, or other writers committed first at each attempt.
    """
    done = Folded()
    conflicts = 0
    while done.commits < steps:
        chosen = _with_vectors(snapshot, step_bytes) if all_vectors else _choose(snapshot, step_bytes)
        if not chosen:
            break
        try:
            done += _fold(snapshot, chosen)
        except Conflict:
            conflicts += 1
            if conflicts == _ATTEMPTS:
                raise _outpaced(snapshot) from None
    if done.commits:
        write_checkpoint(snapshot)  # otherwise readers read all commits since the last checkpoint
    return done


def remove_vectors(table: Place) -> Folded:
    """Rewrite the files with deletion vectors, and remove the feature from the table, so that older readers can read it.

    Older versions of the table still require a reader that supports the feature.

    Raises:
        StorageError: the table does not exist, does not have the feature, or cannot be read or written.
    """
    snapshot = LogSnapshot.read(table)
    if not snapshot.protocol.has_vectors:
        raise StorageError("the table has no deletion vectors", where=str(table))
    refusal = merge_on_read_refusal(snapshot)
    if refusal is not None:
        advice = "Use Spark: ALTER TABLE ... DROP FEATURE deletionVectors TRUNCATE HISTORY"
        raise StorageError(f"the deletion vectors of a table with {refusal} cannot be removed", where=str(table), advice=advice)
    done = Folded()
    for _ in range(_ATTEMPTS):
        done += fold(snapshot, steps=len(snapshot.files) + 1, all_vectors=True)
        try:
            drop_vectors(snapshot, OWN_TABLE)
        except Conflict:
            continue
        return done
    raise _outpaced(snapshot)


def _with_vectors(snapshot: LogSnapshot, step_bytes: int) -> list[list[DataFile]]:
    """Return files with vectors for one commit; each file is a group."""
    chosen: list[list[DataFile]] = []
    for file in snapshot.files.values():
        if file.vector is not None and step_bytes > 0:
            chosen.append([file])
            step_bytes -= file.size
    return chosen


def _outpaced(snapshot: LogSnapshot) -> StorageError:
    return StorageError(
        f"other writers changed the table during each of {_ATTEMPTS} attempts to merge files", where=str(snapshot.table)
    )


def _choose(snapshot: LogSnapshot, step_bytes: int) -> list[list[DataFile]]:
    """Return the files of the next commit, grouped by partition; empty if there is nothing to fold."""
    least_bytes = target_size(snapshot.configuration) // 2
    partitions: dict[tuple[tuple[str, str | None], ...], list[DataFile]] = defaultdict(list)
    for file in snapshot.files.values():
        partitions[tuple(sorted(file.partition_values.items()))].append(file)
    chosen, left = [], step_bytes
    for files in partitions.values():
        heavy = [file for file in files if _deleted_share(file) >= _DELETED_SHARE]
        rest = [file for file in files if _deleted_share(file) < _DELETED_SHARE and file.size < least_bytes]
        small = _similar(sorted(rest, key=lambda file: file.size))
        group: list[DataFile] = []
        heavy.sort(key=_deleted_share, reverse=True)
        for file in [*heavy, *small]:
            if left < step_bytes and file.size > left:
                break
            group.append(file)
            left -= file.size
        if len(group) > 1 or (group and heavy):
            chosen.append(group)
        if left <= 0:
            break
    return chosen


def _similar(files: Sequence[DataFile]) -> Sequence[DataFile]:
    """Return the files, sorted by size, up to the last file that is at most twice as large as all smaller files together."""
    before = itertools.accumulate((file.size for file in files), initial=0)
    last = max(
        (number for number, (file, size) in enumerate(zip(files, before, strict=False)) if file.size <= 2 * size), default=-1
    )
    return files[: last + 1]


def _fold(snapshot: LogSnapshot, chosen: Iterable[Sequence[DataFile]]) -> Folded:
    removed: list[DataFile] = []
    added: list[DataFile] = []
    with Translated(snapshot.table, "the files cannot be folded"):
        for group in chosen:
            writer = DataFileWriter(snapshot, group[0].partition_values)
            deleted = snapshot.deleted_rows(group)
            for file in group:
                deleted_rows = deleted.get(file.path)
                begin = 0
                for rows in read_batches(snapshot, file):
                    stays = np.ones(rows.num_rows, np.bool_)
                    if deleted_rows is not None:
                        first, last = np.searchsorted(deleted_rows, [begin, begin + rows.num_rows])
                        stays[deleted_rows[first:last].astype(np.int64) - begin] = False
                    begin += rows.num_rows
                    writer.write(rows if deleted_rows is None else rows.filter(pa.array(stays)))
            removed += group
            added += writer.finish()
    done = Folded(1, len(removed), len(added), sum(file.deleted for file in removed))
    metrics = {
        "numRemovedFiles": done.removed,
        "numAddedFiles": done.added,
        "numDeletionVectorsRemoved": sum(file.vector is not None for file in removed),
        "numRemovedBytes": sum(file.size for file in removed),
        "numAddedBytes": sum(file.size for file in added),
    }
    commit_files(snapshot, removed=removed, added=added, operation="OPTIMIZE", metrics=metrics)
    return done


def _deleted_share(file: DataFile) -> float:
    return file.deleted / file.rows if file.vector is not None and file.rows else 0.0
