"""Staged commits: how the log's writer appends what was staged, all of it and once, whatever dies in between.

    taken      the manifest in the inbox is renamed, so that nobody can withdraw it any more
    intent     catalog, one transaction: the manifest, and the offset at which each partition's part will begin
    appended   chunk after chunk, to partitions that nobody else appends to meanwhile; then synced
    done       catalog, one transaction: writer and epoch; then the staged files go

A power cut before the intent leaves an epoch of which nothing is appended and nobody was told: its writer commits it again.
So the manifest is not synced; but the staged files are, before the intent: from then on they are all that it is finished from.

An intent is finished before anything else is appended to its partitions: at the next opening, or in the same process
by the next who sends to one of them. What is there already is known from offsets: a partition's chunks follow each
other from where the intent says, so one that ends behind the beginning of a chunk has that chunk. Where messages may
be dropped as they are appended (deduplication), offsets do not say it, and progress is recorded after each chunk.

Readers see partition after partition of a commit as it is appended: it is whole in the end, not at one moment.
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

from headstream.errors import (
    CorruptLogError,
    DecodeError,
    HeadstreamError,
    InvalidInputError,
    StorageError,
)
from headstream.log.catalog import Catalog, TopicRecord
from headstream.log.commit_checks import find_topics
from headstream.log.commit_records import (
    CommitRecord,
    PlaceProgress,
    find_commit,
    forget_commits,
    pending_commits,
    record_commit,
)
from headstream.log.inbox import take_manifest, waiting_manifests
from headstream.log.staging import (
    TAKEN_SUFFIX,
    Manifest,
    chunks_of,
    epoch_directory,
    inbox_path,
    read_chunk,
    sweep_abandoned,
    sweep_epochs,
)
from headstream.model.topology import Fsync
from headstream.segments.layout import INBOX_NAME

if TYPE_CHECKING:
    from headstream.log.log import Log
    from headstream.log.partition import Partition

__all__ = ["ONCE", "StagedCommits"]

ONCE: Final = "once-"
"""What the name of a writer begins with that commits one epoch and never comes back."""

_REMEMBERED_US: Final = 86_400 * 1_000_000
"""How long it is known what became of such a writer's commit: long after anyone waits for it."""

_SWEEP_S: Final = 3600.0
_ABSENT_LOOK_S: Final = 0.25
_IDLE_LOOK_S: Final = 0.02
_BUSY_LOOK_S: Final = 0.004
_BUSY_S: Final = 2.0
"""How often the inbox is looked at: where there is none, where nothing comes, and shortly after something came."""

_RETRY_S: Final = 1.0

_SIDE_BY_SIDE_BYTES: Final = 4 << 20
_MOST_SIDE_BY_SIDE: Final = 4
"""From how many bytes of a commit on, and how many of its partitions are appended at once: each has a batch in memory."""
_log: Final = logging.getLogger("headstream.log")


class StagedCommits:
    """The staged commits of a log; any thread.

    Args:
        log: The log.
        clock_us: Returns the time, microseconds since 1970 UTC.
        entropy: Returns so many random bytes.
    """

    def __init__(
        self,
        log: Log,
        clock_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        entropy: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._log = log
        self._clock_us = clock_us
        self._entropy = entropy
        self._reserved: list[Partition] = []
        self._unfinished: dict[tuple[int, int], StorageError] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    # -- looking --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Look at the inbox in the background from now on."""
        self._thread = threading.Thread(target=self._run, name="headstream-commits", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End that, after the commit that is just being appended."""
        self._stop.set()
        if self._thread is not None and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        log, wait_s, busy_until, sweep_at = self._log, 0.0, 0.0, 0.0
        inbox = f"{log.root}/{INBOX_NAME}"
        while not self._stop.wait(wait_s):
            try:
                names = log.files.list_names(inbox)
                wait_s = _ABSENT_LOOK_S if names is None else _IDLE_LOOK_S
                if names and self.take_in():
                    busy_until = time.monotonic() + _BUSY_S
                if time.monotonic() < busy_until:
                    wait_s = _BUSY_LOOK_S
                elif time.monotonic() >= sweep_at:
                    sweep_at = time.monotonic() + _SWEEP_S
                    sweep_abandoned(log.root, log.files, self._clock_us())
            except HeadstreamError as error:
                _log.warning("a staged commit cannot be appended yet and is tried again: %s", error)
                wait_s = _RETRY_S

    def outcome(self, writer: str) -> CommitRecord | None:
        """Return what became of the last epoch of a writer that was begun, as any process may ask."""
        catalog = self._log.catalog()
        return None if catalog is None else find_commit(catalog, writer)

    # -- appending ------------------------------------------------------------------------------------------

    def take_in(self) -> int:
        """Append everything that is committed and not appended yet, and return how many commits that was.

        Raises:
            StorageError: the system refused; the rest is tried again at the next call, or opening.
        """
        log = self._log
        with log.administration:
            failures, count = self._resume(), 0
            for path in waiting_manifests(log.root, log.files):
                try:
                    manifest = take_manifest(path, log.files)
                    if manifest is not None:
                        self._take(manifest)
                except StorageError as error:  # the next manifest may be of other partitions, or of another disk
                    failures.append(error)
                else:
                    count += 1
            if count:
                forget_commits(self._catalog(), ONCE, self._clock_us() - _REMEMBERED_US)
            if failures:
                raise failures[0]
            return count

    def resume(self, topic: TopicRecord | None = None, number: int = 0) -> None:
        """Finish every commit that was begun: before that, its partitions take nothing else.

        Args:
            topic: With the number, the one partition that is wanted: whether the others are finished does not matter then.
            number: The partition's.

        Raises:
            StorageError: the system refused; it is tried again at the next call, or opening.
        """
        failures = self._resume()
        if topic is None:
            unfinished = failures[0] if failures else None
        else:
            unfinished = self._unfinished.get((topic.number, number))
        if unfinished is not None:
            raise unfinished

    def _resume(self) -> list[StorageError]:
        """Finish what can be finished of what was begun, and return why the rest cannot be just now."""
        with self._log.administration:
            self._unfinished.clear()
            failures: list[StorageError] = []
            for record in pending_commits(self._catalog()):
                try:
                    manifest = Manifest.decode(record.manifest, f"commits, {record.writer!r}")
                    self._finish(self._settle(record), manifest)
                except StorageError as error:
                    failures.append(error)
                    self._keep_reserved(record, error)
                except HeadstreamError as error:  # it can never be finished, and holds up nothing else
                    error.what = f"{error.what}; a part of the commit may be in the log"
                    self._refuse(record.writer, record.epoch, error)
                    self._release()
            return failures

    def _keep_reserved(self, record: CommitRecord, error: StorageError) -> None:
        """Let nothing be appended to the partitions of a commit that is not finished."""
        self._unfinished.update(((place.topic, place.partition), error) for place in record.places)
        self._reserved.clear()

    def _catalog(self) -> Catalog:
        catalog = self._log.catalog()
        if catalog is None:
            raise AssertionError("the log's writer has a catalog")
        return catalog

    def _take(self, manifest: Manifest) -> None:
        """Append what a manifest names, unless that was done before."""
        known = find_commit(self._catalog(), manifest.writer)
        if known is not None and known.state == "pending" and known.epoch <= manifest.epoch:
            if known.epoch < manifest.epoch:  # its record is what the unfinished one is finished from
                raise StorageError(f"epoch {known.epoch} of writer {manifest.writer!r} is not finished yet", where=self._log.root)
        elif known is None or known.epoch < manifest.epoch or (known.epoch == manifest.epoch and known.state == "refused"):
            self._begin(manifest)
        else:
            self._clear(manifest.writer, manifest.epoch)

    def _begin(self, manifest: Manifest) -> None:
        """Record the intent, or why there can be none."""
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
        """Return the intent of a manifest, after checking that all of it can be appended; its partitions are reserved."""
        topics = find_topics(self._log, manifest)
        if manifest.parts:
            self._log.files.sync_directory(epoch_directory(self._log.root, manifest.writer, manifest.epoch))
        places = []
        for name, number in dict.fromkeys((chunk.topic, chunk.partition) for part in manifest.parts for chunk in part.chunks):
            unfinished = self._unfinished.get((topics[name].number, number))
            if unfinished is not None:
                raise unfinished
            places.append(PlaceProgress(topics[name].number, name, number, self._reserve(topics[name], number).end_offset))
        return CommitRecord(manifest.writer, manifest.epoch, "pending", manifest.encode(), tuple(places))

    def _finish(self, record: CommitRecord, manifest: Manifest) -> None:
        self._append(record, manifest)
        self._release()

    def _reserve(self, topic: TopicRecord, number: int) -> Partition:
        partition = self._log.partition(topic, number)
        self._reserved.append(partition)
        partition.reserve()
        return partition

    def _release(self) -> None:
        while self._reserved:
            partition = self._reserved.pop()
            partition.release()
            self._log.ring(partition)

    def _append(self, record: CommitRecord, manifest: Manifest) -> None:
        """Append what is not there yet of an epoch that was begun, and record that it is done."""
        try:
            self._append_places(record, manifest)
        except (InvalidInputError, DecodeError, CorruptLogError) as error:
            error.what = f"{error.what}; a part of the commit may be in the log"
            self._refuse(manifest.writer, manifest.epoch, error)
            return
        done = dataclasses.replace(record, state="done", manifest=b"", places=())
        record_commit(self._catalog(), done, self._clock_us())
        self._clear(manifest.writer, manifest.epoch)

    def _settle(self, record: CommitRecord) -> CommitRecord:
        """Take back what a power cut has damaged of an intent, and have it begin where its partitions end, where that took
        what they had before it."""
        places = []
        for place in record.places:
            topic, end = self._find_number(place), place.from_offset
            if topic is not None:
                partition = self._reserve(topic, place.partition)
                with suppress(CorruptLogError):  # of what no crash explains readers are told
                    partition.take_back(place.from_offset)
                end = min(end, partition.end_offset)
            places.append(dataclasses.replace(place, from_offset=end))
        if tuple(places) != record.places:
            record = dataclasses.replace(record, places=tuple(places))
            record_commit(self._catalog(), record, self._clock_us())
        return record

    def _find_number(self, place: PlaceProgress) -> TopicRecord | None:
        """Return the topic of a place, whatever its name is by now; None where it or the partition is no more."""
        for stream in self._log.snapshot().values():
            for topic in stream.topics.values():
                if topic.number == place.topic:
                    return topic if place.partition <= topic.partitions else None
        return None

    def _append_places(self, record: CommitRecord, manifest: Manifest) -> None:
        """Append each partition's part; those of a big commit side by side."""
        steady: list[tuple[PlaceProgress, TopicRecord]] = []
        for place in record.places:
            topic = self._find_number(place)
            if topic is None:
                continue  # what was purged or deleted since is gone with its topic
            if topic.options.deduplication_count is None:
                steady.append((place, topic))
            else:  # the record says after each chunk how far it is
                record = self._append_place(record, manifest, place, topic)
        size_bytes = sum(chunk.size_bytes for part in manifest.parts for chunk in part.chunks)
        if len(steady) < 2 or size_bytes < _SIDE_BY_SIDE_BYTES:
            for place, topic in steady:
                self._append_place(record, manifest, place, topic)
            return
        with ThreadPoolExecutor(min(len(steady), _MOST_SIDE_BY_SIDE), "headstream-commit") as threads:
            for appended in [threads.submit(self._append_place, record, manifest, *each) for each in steady]:
                appended.result()

    def _append_place(self, record: CommitRecord, manifest: Manifest, place: PlaceProgress, topic: TopicRecord) -> CommitRecord:
        """Append one partition's part."""
        log = self._log
        partition = log.partition(topic, place.partition)
        # Keys were looked for when it began: it is appended as it is, should the topic have begun to need them since.
        options = dataclasses.replace(topic.options, compaction_delay_us=None)
        may_drop = options.deduplication_count is not None
        offset = place.from_offset
        for number, (path, position, chunk) in enumerate(chunks_of(log.root, manifest, place.name, place.partition)):
            if number < place.next_chunk:
                continue
            if partition.end_offset <= offset:
                data = read_chunk(path, log.files, position, chunk)
                partition.append(data, self._clock_us(), self._entropy(16), options, is_reserved=True)
            offset = partition.end_offset if may_drop else offset + chunk.count
            if may_drop:
                partition.sync()
                here = dataclasses.replace(place, from_offset=offset, next_chunk=number + 1)
                places = tuple(here if _is_same(each, here) else each for each in record.places)
                record = dataclasses.replace(record, places=places)
                record_commit(self._catalog(), record, self._clock_us())
        if topic.fsync is not Fsync.NEVER:
            partition.sync()
        return record

    def _refuse(self, writer: str, epoch: int, error: HeadstreamError) -> None:
        record_commit(self._catalog(), CommitRecord(writer, epoch, "refused", reason=str(error)), self._clock_us())
        _log.error("a staged commit is refused: writer %r, epoch %d: %s", writer, epoch, error)
        self._clear(writer, epoch)

    def _clear(self, writer: str, epoch: int) -> None:
        """Remove what was staged, and then the manifest."""
        log = self._log
        sweep_epochs(log.root, log.files, writer, epoch)
        log.files.remove(inbox_path(log.root, writer, epoch, TAKEN_SUFFIX))


def _is_same(one: PlaceProgress, other: PlaceProgress) -> bool:
    return (one.topic, one.partition) == (other.topic, other.partition)
