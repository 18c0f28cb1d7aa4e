"""The catalog's tables of staged commits: the last epoch of each writer, epochs being appended, and owners.

commits    writer | epoch | state | manifest | places | reason | changed_us
writers    name | owner | claimed_us         the server's user who first used a writer; no row for processes without a server

pending    an intent: the manifest is being appended; `places` contains the start of each partition's part
done       the epoch and all earlier epochs are in the log, once
refused    the epoch cannot be appended because of `reason`; no part of it is in the log
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from headstream.log.catalog.catalog import Catalog

CommitState: TypeAlias = Literal["pending", "done", "refused"]
_COLUMNS: Final = "writer, epoch, state, manifest, places, reason, changed_us"


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """Progress of one partition's part of an epoch.

    Args:
        from_offset: Offset of the first message of the chunk `next_chunk`.
        next_chunk: The partition's first chunk, counted from 0, that is possibly not yet appended.
    """

    topic: int
    name: str
    partition: int
    from_offset: int
    next_chunk: int = 0


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A writer's last epoch that the log has started to append; while pending, with manifest and progress per partition."""

    writer: str
    epoch: int
    state: CommitState
    manifest: bytes = b""
    progress: tuple[PartitionProgress, ...] = ()
    reason: str = ""
    changed_us: int = 0


def find_commit(catalog: Catalog, writer: str) -> CommitRecord | None:
    """Return the record of a writer, or None."""
    found = catalog.select(f"SELECT {_COLUMNS} FROM commits WHERE writer = ?", writer, since=5)
    return _record(*found[0]) if found else None


def pending_commits(catalog: Catalog) -> list[CommitRecord]:
    """Return all epochs that are started and unfinished."""
    return [_record(*row) for row in catalog.select(f"SELECT {_COLUMNS} FROM commits WHERE state = 'pending'", since=5)]


def record_commit(catalog: Catalog, record: CommitRecord, now_us: int) -> None:
    """Replace the record of a writer, durably."""
    rows = [(each.topic, each.name, each.partition, each.from_offset, each.next_chunk) for each in record.progress]
    with catalog.transaction(()):
        catalog.change(
            f"INSERT OR REPLACE INTO commits ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)",
            record.writer, record.epoch, record.state, record.manifest, json.dumps(rows), record.reason, now_us,
        )  # fmt: skip


def find_owner(catalog: Catalog, writer: str) -> int | None:
    """Return the id of the user who owns a writer, or None."""
    found = catalog.select("SELECT owner FROM writers WHERE name = ?", writer, since=7)
    return int(found[0][0]) if found else None


def claim_writer(catalog: Catalog, writer: str, owner: int, before: int | None, most: int, now_us: int) -> bool:
    """Durably make a user a writer's owner; return False if a user other than `before` owns it or the limit is reached."""
    with catalog.transaction(()):
        owned = catalog.select("SELECT count(*) FROM writers WHERE owner = ?", owner, since=7)
        if find_owner(catalog, writer) != before or owned[0][0] >= most:
            return False
        catalog.change("INSERT OR REPLACE INTO writers (name, owner, claimed_us) VALUES (?, ?, ?)", writer, owner, now_us)
        return True


def forget_commits(catalog: Catalog, prefix: str, before_us: int) -> None:
    """Delete commits of one-time writers (names with a prefix), and owners of these writers and of writers without commits.

    Only rows from before `before_us` are deleted, and no pending commit.
    """
    with catalog.transaction(()):
        catalog.change(
            "DELETE FROM writers WHERE claimed_us < ? "
            "AND NOT EXISTS (SELECT 1 FROM commits WHERE writer = name AND substr(name, 1, ?) != ?)",
            before_us, len(prefix), prefix,
        )  # fmt: skip
        catalog.change(
            "DELETE FROM commits WHERE state != 'pending' AND changed_us < ? AND substr(writer, 1, ?) = ?",
            before_us, len(prefix), prefix,
        )  # fmt: skip


def _record(
    writer: str, epoch: int, state: CommitState, manifest: bytes, progress_json: str, reason: str, changed_us: int
) -> CommitRecord:
    progress = tuple(PartitionProgress(*each) for each in json.loads(progress_json))
    return CommitRecord(writer, epoch, state, manifest, progress, reason, changed_us)
