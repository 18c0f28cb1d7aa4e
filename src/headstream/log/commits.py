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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

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
from headstream.log.catalog import Catalog, TopicRecord
from headstream.log.commit_records import (
    CommitRecord,
    PlaceProgress,
    find_commit,
    forget_commits,
    pending_commits,
    record_commit,
)
from headstream.log.compacted_input import check_keys
from headstream.log.staging import (
    MANIFEST_SUFFIX,
    TAKEN_SUFFIX,
    Chunk,
    Manifest,
    epoch_directory,
    inbox_path,
    read_chunk,
    read_manifest,
    sweep_abandoned,
    sweep_epochs,
)
from headstream.model.identifiers import TopicName
from headstream.model.topology import Fsync, Limits
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


class _Place(NamedTuple):
    """One chunk and where its bytes are."""

    path: str
    position: int
    chunk: Chunk


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
            self.resume()
            count = 0
            for name in sorted(log.files.list_names(f"{log.root}/{INBOX_NAME}") or ()):
                if name.endswith((MANIFEST_SUFFIX, TAKEN_SUFFIX)):
                    self._take(f"{log.root}/{INBOX_NAME}/{name}")
                    count += 1
            if count:
                forget_commits(self._catalog(), ONCE, self._clock_us() - _REMEMBERED_US)
            return count

    def resume(self) -> None:
        """Finish every commit that was begun: before that, its partitions take nothing else.

        Raises:
            StorageError: the system refused; it is tried again at the next call, or opening.
        """
        with self._log.administration:
            for record in pending_commits(self._catalog()):
                self._append(self._settle(record), Manifest.decode(record.manifest, f"commits, {record.writer!r}"))
            self._release()

    def _catalog(self) -> Catalog:
        catalog = self._log.catalog()
        if catalog is None:
            raise AssertionError("the log's writer has a catalog")
        return catalog

    def _take(self, path: str) -> None:
        """Append what one manifest names, unless that was done before."""
        log = self._log
        taken = f"{path.rpartition('.')[0]}{TAKEN_SUFFIX}"
        if path != taken:
            try:
                log.files.rename(path, taken)
            except StorageError:
                if log.files.exists(path):
                    raise
                return  # withdrawn just now
        try:
            manifest = read_manifest(taken, log.files)
        except CorruptLogError as error:
            _log.error("a staged commit is set aside: %s", error)
            log.files.rename(taken, f"{taken}.damaged")
            return
        if manifest is None:
            return
        known = find_commit(self._catalog(), manifest.writer)
        if known is None or known.epoch < manifest.epoch or (known.epoch == manifest.epoch and known.state == "refused"):
            self._begin(manifest)
        else:
            self._clear(manifest)

    def _begin(self, manifest: Manifest) -> None:
        """Record the intent, or why there can be none."""
        try:
            topics = self._find_topics(manifest)
        except (NotFoundError, LimitError, CorruptLogError) as error:
            self._refuse(manifest, error)
            return
        if manifest.parts:
            self._log.files.sync_directory(epoch_directory(self._log.root, manifest.writer, manifest.epoch))
        places = []
        for name, number in dict.fromkeys((chunk.topic, chunk.partition) for part in manifest.parts for chunk in part.chunks):
            places.append(PlaceProgress(topics[name].number, name, number, self._reserve(topics[name], number).end_offset))
        record = CommitRecord(manifest.writer, manifest.epoch, "pending", manifest.encode(), tuple(places))
        record_commit(self._catalog(), record, self._clock_us())
        self._append(record, manifest)
        self._release()

    def _find_topics(self, manifest: Manifest) -> dict[str, TopicRecord]:
        """Return the topics of a manifest by name, after checking that all of it can be appended."""
        log = self._log
        if manifest.identity != log.identity:
            raise NotFoundError(f"it is meant for another log, {manifest.identity}", where=log.root)
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
                    topic = topics[chunk.topic] = self._find_topic(chunk.topic)
                if chunk.partition > topic.partitions:
                    raise PartitionNotFoundError(
                        f"topic {chunk.topic!r} has no partition {chunk.partition} any more",
                        advice=f"Its partitions are 1 to {topic.partitions}",
                    )
                if topic.options.compaction_delay_us is not None:
                    check_keys(read_chunk(path, log.files, position, chunk), chunk.topic)
                position += chunk.size_bytes
        for name, limits in manifest.limits.items():
            if limits == Limits.WIDE.value and topics[name].limits is Limits.IGGY:
                raise LimitError(f"topic {name!r} has been made again, with limits iggy", advice="Send the batch again")
        return topics

    def _find_topic(self, name: str) -> TopicRecord:
        parsed = TopicName.parse(name)
        stream = self._log.snapshot().get(parsed.stream)
        topic = None if stream is None else stream.topics.get(parsed.topic)
        if topic is None:
            raise TopicNotFoundError(f"topic {name!r} is not there any more", where=self._log.root, advice="Create it first")
        return topic

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
            self._refuse(manifest, error)
            return
        done = dataclasses.replace(record, state="done", manifest=b"", places=())
        record_commit(self._catalog(), done, self._clock_us())
        self._clear(manifest)

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
        for number, (path, position, chunk) in enumerate(_chunks_of(log.root, manifest, place)):
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

    def _refuse(self, manifest: Manifest, error: HeadstreamError) -> None:
        refused = CommitRecord(manifest.writer, manifest.epoch, "refused", reason=str(error))
        record_commit(self._catalog(), refused, self._clock_us())
        _log.error("epoch %d of %s is refused: %s", manifest.epoch, manifest.writer, error)
        self._clear(manifest)

    def _clear(self, manifest: Manifest) -> None:
        """Remove what was staged, and then the manifest."""
        log = self._log
        sweep_epochs(log.root, log.files, manifest.writer, manifest.epoch)
        log.files.remove(inbox_path(log.root, manifest.writer, manifest.epoch, TAKEN_SUFFIX))


def _is_same(one: PlaceProgress, other: PlaceProgress) -> bool:
    return (one.topic, one.partition) == (other.topic, other.partition)


def _chunks_of(root: str, manifest: Manifest, place: PlaceProgress) -> Iterator[_Place]:
    """Return the chunks of one partition, in the order in which they are appended."""
    directory = epoch_directory(root, manifest.writer, manifest.epoch)
    for part in manifest.parts:
        position = 0
        for chunk in part.chunks:
            if (chunk.topic, chunk.partition) == (place.name, place.partition):
                yield _Place(f"{directory}/{part.name}", position, chunk)
            position += chunk.size_bytes
