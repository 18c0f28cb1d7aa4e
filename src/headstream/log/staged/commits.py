"""Staged commits: the log's writer appends all staged batches of a commit, exactly once, across crashes.

    taken      the manifest in the inbox is renamed, so that it can no longer be withdrawn
    intent     catalog, one transaction: the manifest, and the offset at which each partition's part starts
    appended   chunk after chunk, to partitions that are reserved meanwhile; then synced
    done       catalog, one transaction: writer and epoch; then the staged files are removed

A power failure before the intent leaves an epoch that is neither appended nor acknowledged; its writer commits the epoch again.
The manifest therefore need not be synced. The staged files are synced before the intent, because recovery needs them.

An interrupted commit is completed before any other append to its partitions: at the next opening, or, in the same process, by the
next send to one of the partitions. Offsets show which chunks are appended: a partition's chunks are contiguous from the intent's
offset, so a partition that ends after the start of a chunk contains the chunk. If deduplication can drop messages, offsets do not
show the progress, so it is recorded after each chunk.

Readers see the parts of a commit as they are appended, partition by partition, not all at the same time.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Fsync, Limits
from headstream.errors import (
    CorruptLogError,
    DecodeError,
    HeadstreamError,
    InvalidInputError,
    LimitError,
    NotFoundError,
    PartitionNotFoundError,
    StorageError,
    TopicNotFoundError,
)
from headstream.log.catalog.catalog import Catalog, find_topic
from headstream.log.catalog.commit_records import (
    CommitRecord,
    PartitionProgress,
    find_commit,
    forget_commits,
    pending_commits,
    record_commit,
)
from headstream.log.catalog.records import TopicRecord
from headstream.log.partition.compacted_input import check_keys
from headstream.log.segments.layout import INBOX_NAME
from headstream.log.staged.staging import (
    MANIFEST_SUFFIX,
    TAKEN_SUFFIX,
    Manifest,
    chunks_of,
    epoch_directory,
    inbox_name,
    inbox_path,
    read_chunk,
    read_manifest,
    sweep_abandoned,
    sweep_epochs,
)
from headstream.log.system.files import Files

if TYPE_CHECKING:
    from headstream.log.access import LogAccess
    from headstream.log.partition.partition import PartitionWriter

# The inbox: manifests for the log's writer, and invalid manifests, which are renamed.
#
#     <writer>-<epoch>.json      committed, and not taken yet
#     <writer>-<epoch>.taken     being appended, or left by a writer that crashed meanwhile
#     *.damaged                  renamed: the bytes are not a manifest
#     *.misnamed                 renamed: the manifest's writer or epoch differs from its file's name
#     *.unreadable               renamed: it is a directory. After other errors, reading is attempted again
#
# Renamed files stay until an operator moves them; they never block another commit.


def list_manifests(root: str, files: Files) -> list[str]:
    """Return the paths of the manifests in a log's inbox, sorted by writer and epoch."""
    inbox = f"{root}/{INBOX_NAME}"
    names = [name for name in files.list_names(inbox) or () if name.endswith((MANIFEST_SUFFIX, TAKEN_SUFFIX))]
    return [f"{inbox}/{name}" for name in sorted(names, key=_by_epoch)]


def _by_epoch(name: str) -> tuple[str, int, str]:
    writer, _, epoch = name.rpartition("-")
    return writer, len(epoch.partition(".")[0]), epoch  # an epoch's number has no leading zeros


def take_manifest(path: str, files: Files) -> Manifest | None:
    """Rename a manifest, so that it can no longer be withdrawn, and return it; None if it was withdrawn or is invalid.

    Raises:
        StorageError: the manifest cannot be read now; it stays in the inbox, and the next call retries.
    """
    stem, _, suffix = path.rpartition(".")
    taken = f"{stem}{TAKEN_SUFFIX}"
    if f".{suffix}" != TAKEN_SUFFIX:
        try:
            files.rename(path, taken)
        except StorageError:
            if files.exists(path):
                raise
            return None  # withdrawn just now
    try:
        manifest = read_manifest(taken, files)
    except CorruptLogError as error:
        _quarantine(taken, files, "damaged", error.what)
        return None
    except StorageError as error:
        if not isinstance(error.__cause__, IsADirectoryError):
            raise  # the commit was submitted, and a later attempt can read the manifest
        _quarantine(taken, files, "unreadable", error.what)
        return None
    if manifest is not None and inbox_name(manifest.writer, manifest.epoch, TAKEN_SUFFIX) != taken.rpartition("/")[2]:
        _quarantine(taken, files, "misnamed", f"the manifest belongs to writer {manifest.writer!r}, epoch {manifest.epoch}")
        return None
    return manifest


def _quarantine(path: str, files: Files, why: str, reason: str) -> None:
    _log.error("a staged commit's manifest was renamed to %s.%s: %s", path, why, reason)
    files.rename(path, f"{path}.{why}")


def find_topics(log: LogAccess, manifest: Manifest) -> dict[str, TopicRecord]:
    """Check that all batches of a manifest can be appended; return the manifest's topics by name.

    Raises:
        NotFoundError: a topic or partition is missing, or the manifest belongs to a different log.
        LimitError: the topic does not accept these messages.
    """
    if manifest.identity != log.identity:
        raise NotFoundError(f"the commit belongs to another log, {manifest.identity}", where=log.root)
    topics: dict[str, TopicRecord] = {}
    for part in manifest.parts:
        path = f"{epoch_directory(log.root, manifest.writer, manifest.epoch)}/{part.name}"
        file = log.files.open_read(path)
        size_bytes = 0
        if file is not None:
            size_bytes = file.size_bytes()
            file.close()
        if size_bytes < sum(chunk.size_bytes for chunk in part.chunks):
            raise CorruptLogError("a staged file is missing or cut short", where=path, advice="Send the batch again")
        position = 0
        for chunk in part.chunks:
            topic = topics.get(chunk.topic)
            if topic is None:
                topic = topics[chunk.topic] = _find_topic(log, chunk.topic)
            if not 1 <= chunk.partition <= topic.partitions:
                raise PartitionNotFoundError(
                    f"topic {chunk.topic!r} has no partition {chunk.partition}",
                    advice=f"Use a partition from 1 to {topic.partitions}",
                )
            if topic.options.compaction_delay_us is not None:
                check_keys(read_chunk(path, log.files, position, chunk), chunk.topic)
            position += chunk.size_bytes
    for name, limits in manifest.limits.items():
        if limits == Limits.WIDE.value and topics[name].limits is Limits.IGGY:
            raise LimitError(f"topic {name!r} was recreated with limits iggy", advice="Send the batch again")
    return topics


def _find_topic(log: LogAccess, name: str) -> TopicRecord:
    parsed = TopicName.parse(name)
    stream = log.snapshot().get(parsed.stream)
    topic = None if stream is None else stream.topics.get(parsed.topic)
    if topic is None:
        raise TopicNotFoundError(f"topic {name!r} no longer exists", where=log.root, advice="Create the topic")
    return topic


ONCE: Final = "once-"
"""Name prefix of writers that commit only one epoch."""

_REMEMBERED_US: Final = 86_400 * 1_000_000
"""How long the outcome of such a writer's commit is stored, microseconds: much longer than clients wait for the outcome."""

_SWEEP_S: Final = 3600.0
_ABSENT_CHECK_S: Final = 0.25
_IDLE_CHECK_S: Final = 0.02
_BUSY_CHECK_S: Final = 0.004
_BUSY_S: Final = 2.0
"""Polling intervals of the inbox, seconds: without an inbox, without new manifests, and for _BUSY_S after a new manifest."""

_RETRY_S: Final = 1.0

_SIDE_BY_SIDE_BYTES: Final = 4 << 20
_MOST_SIDE_BY_SIDE: Final = 4
"""Commits of at least this many bytes append to this number of partitions in parallel; each partition has a batch in memory."""
_log: Final = logging.getLogger("headstream.log")


class StagedCommits:
    """The staged commits of a log; thread-safe."""

    def __init__(
        self,
        log: LogAccess,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._log = log
        self._clock_us = clock_us
        self._entropy = entropy
        self._reserved: list[PartitionWriter] = []
        self._unfinished: dict[tuple[int, int], StorageError] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # -- polling the inbox ----------------------------------------------------------------------------------

    def start(self) -> None:
        """Start polling the inbox in the background."""
        self._thread = threading.Thread(target=self._run, name="headstream-commits", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop polling after the commit that is being appended."""
        self._stop.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        log, wait_s, busy_until, sweep_at = self._log, 0.0, 0.0, 0.0
        inbox = f"{log.root}/{INBOX_NAME}"
        while not self._stop.wait(wait_s):
            try:
                names = log.files.list_names(inbox)
                wait_s = _ABSENT_CHECK_S if names is None else _IDLE_CHECK_S
                if names and self.append_submitted():
                    busy_until = time.monotonic() + _BUSY_S
                if time.monotonic() < busy_until:
                    wait_s = _BUSY_CHECK_S
                elif time.monotonic() >= sweep_at:
                    sweep_at = time.monotonic() + _SWEEP_S
                    sweep_abandoned(log.root, log.files, self._clock_us())
            except HeadstreamError as error:
                _log.warning("a staged commit cannot be appended yet; retrying: %s", error)
                wait_s = _RETRY_S

    def outcome(self, writer: str) -> CommitRecord | None:
        """Return the record of a writer's last started epoch; can be called in any process."""
        catalog = self._log.catalog()
        return None if catalog is None else find_commit(catalog, writer)

    # -- appending ------------------------------------------------------------------------------------------

    def append_submitted(self) -> int:
        """Append all committed epochs that are not appended yet; return the number of commits.

        After a StorageError, remaining commits are retried at the next call or opening; the same applies to resume().
        """
        log = self._log
        with log.administration:
            failures, count, waiting = self._resume(), 0, ""
            for path in list_manifests(log.root, log.files):
                if (writer := path.rpartition("-")[0]) == waiting:
                    continue  # a later epoch would supersede the epoch that was not appended
                try:
                    manifest = take_manifest(path, log.files)
                    if manifest is not None:
                        self._take(manifest)
                except StorageError as error:  # the next manifest can be for other partitions or another disk
                    failures.append(error)
                    waiting = writer
                else:
                    count += 1
            if count:
                forget_commits(self._catalog(), ONCE, self._clock_us() - _REMEMBERED_US)
            if failures:
                raise failures[0]
            return count

    def resume(self, topic: TopicRecord | None = None, number: int = 0) -> None:
        """Complete all started commits, or the commit of one partition; until then, their partitions accept no other append."""
        failures = self._resume()
        if topic is None:
            unfinished = failures[0] if failures else None
        else:
            unfinished = self._unfinished.get((topic.number, number))
        if unfinished is not None:
            raise unfinished

    def _resume(self) -> list[StorageError]:
        """Complete all commits that can be completed; return the errors of all other commits."""
        with self._log.administration:
            self._unfinished.clear()
            failures: list[StorageError] = []
            for record in pending_commits(self._catalog()):
                try:
                    manifest = Manifest.decode(record.manifest, f"commits, {record.writer!r}")
                    self._finish(self._repair_intent(record), manifest)
                except StorageError as error:
                    failures.append(error)
                    self._keep_reserved(record, error)
                except HeadstreamError as error:  # permanent: refuse it, so that it does not block others
                    error.what = f"{error.what}; the log may contain part of the commit"
                    self._refuse(record.writer, record.epoch, error)
                    self._release()
            return failures

    def _keep_reserved(self, record: CommitRecord, error: StorageError) -> None:
        self._unfinished.update(((progress.topic, progress.partition), error) for progress in record.progress)
        self._reserved.clear()

    def _catalog(self) -> Catalog:
        catalog = self._log.catalog()
        if catalog is None:
            raise AssertionError("the log's writer has no catalog")
        return catalog

    def _take(self, manifest: Manifest) -> None:
        """Append the batches of a manifest, unless they were appended before."""
        known = find_commit(self._catalog(), manifest.writer)
        if known is not None and known.state == "pending" and known.epoch <= manifest.epoch:
            if known.epoch < manifest.epoch:  # the unfinished epoch is completed from its record: keep the record
                raise StorageError(f"epoch {known.epoch} of writer {manifest.writer!r} is not finished yet", where=self._log.root)
        elif known is None or known.epoch < manifest.epoch or (known.epoch == manifest.epoch and known.state == "refused"):
            self._begin(manifest)
        else:
            self._clear(manifest.writer, manifest.epoch)

    def _begin(self, manifest: Manifest) -> None:
        """Record the intent, or the reason for a refusal."""
        try:
            record = self._plan(manifest)
        except StorageError:
            self._release()
            raise
        except HeadstreamError as error:
            self._release()
            self._refuse(manifest.writer, manifest.epoch, error)
            return
        record_commit(self._catalog(), record, self._clock_us())
        try:
            self._finish(record, manifest)
        except StorageError as error:
            self._keep_reserved(record, error)
            raise

    def _plan(self, manifest: Manifest) -> CommitRecord:
        """Check that all batches of a manifest can be appended, and reserve its partitions; return the intent."""
        topics = find_topics(self._log, manifest)
        if manifest.parts:
            self._log.files.sync_directory(epoch_directory(self._log.root, manifest.writer, manifest.epoch))
        progress = []
        for name, number in dict.fromkeys((chunk.topic, chunk.partition) for part in manifest.parts for chunk in part.chunks):
            unfinished = self._unfinished.get((topics[name].number, number))
            if unfinished is not None:
                raise unfinished
            progress.append(PartitionProgress(topics[name].number, name, number, self._reserve(topics[name], number).end_offset))
        return CommitRecord(manifest.writer, manifest.epoch, "pending", manifest.encode(), tuple(progress))

    def _finish(self, record: CommitRecord, manifest: Manifest) -> None:
        self._append(record, manifest)
        self._release()

    def _reserve(self, topic: TopicRecord, number: int) -> PartitionWriter:
        partition = self._log.partition(topic, number)
        self._reserved.append(partition)
        partition.reserve()
        return partition

    def _release(self) -> None:
        while self._reserved:
            partition = self._reserved.pop()
            partition.release()
            self._log.notify(partition)

    def _append(self, record: CommitRecord, manifest: Manifest) -> None:
        """Append the missing part of a started epoch, and record that the epoch is done."""
        try:
            self._append_partitions(record, manifest)
        except (InvalidInputError, DecodeError, CorruptLogError) as error:
            error.what = f"{error.what}; the log may contain part of the commit"
            self._refuse(manifest.writer, manifest.epoch, error)
            return
        done = dataclasses.replace(record, state="done", manifest=b"", progress=())
        record_commit(self._catalog(), done, self._clock_us())
        self._clear(manifest.writer, manifest.epoch)

    def _repair_intent(self, record: CommitRecord) -> CommitRecord:
        """Truncate appended parts that a power failure has damaged, and set the intent's start to the partition's new end."""
        settled = []
        for progress in record.progress:
            topic, end = self._find_topic(progress), progress.from_offset
            if topic is not None:
                partition = self._reserve(topic, progress.partition)
                with suppress(CorruptLogError):  # reads raise errors for damage that a crash does not explain
                    partition.truncate_damaged(progress.from_offset)
                end = min(end, partition.end_offset)
            settled.append(dataclasses.replace(progress, from_offset=end))
        if tuple(settled) != record.progress:
            record = dataclasses.replace(record, progress=tuple(settled))
            record_commit(self._catalog(), record, self._clock_us())
        return record

    def _find_topic(self, progress: PartitionProgress) -> TopicRecord | None:
        """Return the topic by its number; None if the topic or the partition was deleted."""
        topic = find_topic(self._log.snapshot(), progress.topic)
        return topic if topic is not None and progress.partition <= topic.partitions else None

    def _append_partitions(self, record: CommitRecord, manifest: Manifest) -> None:
        """Append each partition's part; the parts of a large commit are appended in parallel."""
        steady: list[tuple[PartitionProgress, TopicRecord]] = []
        for progress in record.progress:
            topic = self._find_topic(progress)
            if topic is None:
                continue  # deleted or purged with its topic
            if topic.options.deduplication_count is None:
                steady.append((progress, topic))
            else:  # the progress is recorded after each chunk
                record = self._append_partition(record, manifest, progress, topic)
        size_bytes = sum(chunk.size_bytes for part in manifest.parts for chunk in part.chunks)
        if len(steady) < 2 or size_bytes < _SIDE_BY_SIDE_BYTES:
            for progress, topic in steady:
                self._append_partition(record, manifest, progress, topic)
            return
        with ThreadPoolExecutor(min(len(steady), _MOST_SIDE_BY_SIDE), "headstream-commit") as threads:
            for appended in [threads.submit(self._append_partition, record, manifest, *each) for each in steady]:
                appended.result()

    def _append_partition(
        self, record: CommitRecord, manifest: Manifest, progress: PartitionProgress, topic: TopicRecord
    ) -> CommitRecord:
        log = self._log
        partition = log.partition(topic, progress.partition)
        # Keys were checked at the beginning: append unchanged even if the topic now requires keys.
        options = dataclasses.replace(topic.options, compaction_delay_us=None)
        may_drop = options.deduplication_count is not None
        offset = progress.from_offset
        for number, (path, position, chunk) in enumerate(chunks_of(log.root, manifest, progress.name, progress.partition)):
            if number < progress.next_chunk:
                continue
            if partition.end_offset <= offset:
                data = read_chunk(path, log.files, position, chunk)
                partition.append(data, self._clock_us(), self._entropy(16), options, is_reserved=True)
            offset = partition.end_offset if may_drop else offset + chunk.count
            if may_drop:
                partition.sync()
                here = dataclasses.replace(progress, from_offset=offset, next_chunk=number + 1)
                updated = tuple(here if _is_same(each, here) else each for each in record.progress)
                record = dataclasses.replace(record, progress=updated)
                record_commit(self._catalog(), record, self._clock_us())
        if topic.fsync is not Fsync.NEVER:
            partition.sync()
        return record

    def _refuse(self, writer: str, epoch: int, error: HeadstreamError) -> None:
        record_commit(self._catalog(), CommitRecord(writer, epoch, "refused", reason=str(error)), self._clock_us())
        _log.error("a staged commit was refused: writer %r, epoch %d: %s", writer, epoch, error)
        self._clear(writer, epoch)

    def _clear(self, writer: str, epoch: int) -> None:
        """Remove the staged files, then the manifest."""
        log = self._log
        sweep_epochs(log.root, log.files, writer, epoch)
        log.files.remove(inbox_path(log.root, writer, epoch, TAKEN_SUFFIX))


def _is_same(one: PartitionProgress, other: PartitionProgress) -> bool:
    return (one.topic, one.partition) == (other.topic, other.partition)
