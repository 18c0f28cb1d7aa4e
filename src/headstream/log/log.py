"""Log: one directory, or one process's memory, with catalog, partitions, offsets and the writer's lock.

Reading and committing offsets need no lock. The first write acquires the lock and holds it until close().
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Final

from headstream.core.codec.buffer import BytesLike
from headstream.core.model.producers import Appended, BatchNumber
from headstream.core.model.removals import Removal
from headstream.core.model.topology import Limits
from headstream.errors import ClosedError, CorruptLogError, StorageError
from headstream.forks import register_for_forks
from headstream.log.catalog.catalog import Catalog, check_exists
from headstream.log.catalog.records import Snapshot, TopicRecord
from headstream.log.directory.lock import WriterLock
from headstream.log.directory.marker import Marker, read_marker, write_marker
from headstream.log.directory.waiters import Waiters
from headstream.log.directory.watcher import DirectoryWatcher
from headstream.log.partition.closed_segments import finish_pass
from headstream.log.partition.offsets import OffsetStore, OpenOffsets
from headstream.log.partition.partition import PartitionWriter, ReservedError
from headstream.log.partition.partition_end import PartitionEnd
from headstream.log.partition.readers import LockedFollower, Readers
from headstream.log.partition.syncing import IntervalSyncer
from headstream.log.segments.layout import CATALOG_NAME, FORMAT_VERSION, GROUPS_NAME, LOCK_NAME, OFFSETS_NAME, topic_directory
from headstream.log.staged.commits import StagedCommits
from headstream.log.states import MessageStates
from headstream.log.system.files import Files
from headstream.log.system.linux import max_open_files
from headstream.log.upkeep.sweeping import sweep_directories
from headstream.log.upkeep.upkeep import Upkeep

_MAX_OPEN: Final = 2048
_MAX_OPEN_OFFSETS: Final = 2048
"""Limits of open files: partitions for writing and reading (two or three files each), and offset files; in total three eighths of
the process's limit. Closing a partition costs a sync and, later, a search for its end."""


class Log:
    """A log of streams, topics and partitions; thread-safe. opening.py opens a log."""

    def __init__(self, root: str, files: Files, *, is_memory: bool, segment_bytes: int) -> None:
        self.root = root
        self.files = files
        self.segment_bytes = segment_bytes
        self.is_memory = is_memory
        self._lock = threading.RLock()
        self._max_open = min(_MAX_OPEN, max(16, max_open_files() // 16))
        self.administration = threading.RLock()
        self.passing = threading.Lock()  # held by a pass that rewrites segments and removes unfinished files
        self.upkeep = Upkeep(self)
        self._states: MessageStates | None = None
        self.commits = StagedCommits(self)
        self._writer_lock = WriterLock(f"{root}/{LOCK_NAME}")
        self._marker = read_marker(root, files)
        self._catalog: Catalog | None = None
        self._read_only: Catalog | None = None
        """The catalog from before start_writing(): threads that read use it until the log is closed."""
        self._partitions: dict[tuple[int, int], PartitionWriter] = {}
        self._opened: dict[int, dict[int, PartitionWriter]] = {}
        self._removed: dict[int, dict[int, int]] = {}
        self._starts: dict[tuple[int, int], tuple[int, int]] = {}  # topic, partition -> number of removals, log start offset
        self._writing: OrderedDict[tuple[int, int], PartitionWriter] = OrderedDict()
        self._readers = Readers(files, self._max_open)
        self._offsets: dict[int, OffsetStore] = {}
        self.open_offsets = OpenOffsets(min(_MAX_OPEN_OFFSETS, max(16, max_open_files() // 16)))
        self._syncer = IntervalSyncer()
        self.waiting = Waiters()
        self._watching = DirectoryWatcher(self.waiting)
        self._is_writer = False
        self._closed_because: str | None = None
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: become unusable, because files, database and threads belong to the parent process."""
        self._closed_because = "the log was opened before this process was forked"
        self._is_writer = False
        self._lock, self.administration, self.passing = threading.RLock(), threading.RLock(), threading.Lock()

    @property
    def identity(self) -> str | None:
        """The UUID that identifies this log; None before the first write."""
        marker = self._found()
        return None if marker is None else marker.identity

    @property
    def groups_directory(self) -> str:
        """Directory of the consumer groups' locks; a change of the directory also wakes waiting members."""
        return f"{self.root}/{GROUPS_NAME}"

    @property
    def is_writer(self) -> bool:
        """Whether this process is the log's writer."""
        return self._is_writer

    @property
    def is_closing(self) -> bool:
        """Whether background jobs should stop early."""
        return self.upkeep.is_closing

    def _check_open(self) -> None:
        if self._closed_because is not None:
            raise ClosedError(self._closed_because, where=self.root, advice="Connect again")

    def _found(self) -> Marker | None:
        if self._marker is None:
            self._marker = read_marker(self.root, self.files)
        return self._marker

    # -- metadata -------------------------------------------------------------------------------------------

    def start_writing(self, identity: str, created_us: int, *, briefly: bool = False) -> None:
        """Become the log's writer; create the log if missing.

        Args:
            identity: The UUID for a log that is created.
            briefly: Whether the lock is held only briefly, so that other writers wait for its release.

        Raises:
            LogLockedError: another process is the writer.
            NotALogError, LogVersionError, CorruptLogError, StorageError: the directory cannot be used.
        """
        if self._is_writer:
            return
        with self.administration, self._lock:
            self._check_open()
            if self._is_writer:
                return
            self._found()
            self.files.make_directory(self.root)
            if not self.is_memory:
                self._writer_lock.acquire(briefly=briefly)
            self._read_only = self._catalog
            try:
                self._marker = read_marker(self.root, self.files)
                catalog = Catalog(self._catalog_path(must_exist=self._marker is not None), is_writer=True)
                states = self._use(catalog)
                if self._marker is None:
                    self._marker = Marker(FORMAT_VERSION, identity, created_us)
                    write_marker(self.root, self.files, self._marker)
                states.repair()
                sweep_directories(self.root, self.files, catalog)
                self._is_writer = True
                self.commits.resume()
            except BaseException:
                self._end_writing()
                raise
            if not (self.is_memory or briefly):
                self.commits.start()

    def _end_writing(self) -> None:
        """Release the writer's lock after start_writing() has failed; readers use their read-only catalog again."""
        failed, self._catalog, self._states = self._catalog, self._read_only, None
        if failed is not None and failed is not self._read_only:
            failed.close()
        if self._read_only is not None:
            self._use(self._read_only)
        self._is_writer = False
        self._writer_lock.release()

    def _use(self, catalog: Catalog) -> MessageStates:
        self._catalog = catalog
        self._states = MessageStates(catalog, self.files, self.partition_directory, self.administration)
        return self._states

    def _catalog_path(self, *, must_exist: bool) -> str | None:
        if self.is_memory:
            return None
        path = f"{self.root}/{CATALOG_NAME}"
        if must_exist and not self.files.exists(path):
            raise CorruptLogError("the log's catalog is missing", where=path, advice="Restore the file from a copy")
        return path

    def catalog(self) -> Catalog | None:
        """Return the catalog of streams and topics; None if the log does not exist yet."""
        with self._lock:
            self.snapshot()
            return self._catalog

    def snapshot(self) -> Snapshot:
        """Return the current streams and topics; empty if the log does not exist yet."""
        known = self._catalog.known if self._is_writer and self._catalog is not None else None
        if known is not None:  # called twice per send: without the lock, which a change of topics can hold for a long time
            return known
        with self._lock:
            self._check_open()
            if self._catalog is None:
                if self._found() is None:
                    return {}
                catalog = Catalog(self._catalog_path(must_exist=True), is_writer=False)
                self._use(catalog)
                return catalog.snapshot()
            return self._catalog.snapshot()

    @property
    def states(self) -> MessageStates:
        """The states of the log's messages; call snapshot() first."""
        self._check_open()
        if self._states is None:
            raise AssertionError("snapshot() must be called first")
        return self._states

    def _writable_catalog(self) -> Catalog:
        self._check_open()
        if self._catalog is None or not self._is_writer:
            raise AssertionError("start_writing() must be called first")
        return self._catalog

    @contextmanager
    def changing(self) -> Iterator[Catalog]:
        """Return a context with the catalog for a change of topics; one thread at a time."""
        with self.administration, self._lock:
            yield self._writable_catalog()

    def drop(self, topic: TopicRecord) -> None:
        """Remove the files of a topic that is no longer in the catalog."""
        directory = topic_directory(self.root, topic.stream_number, topic.number)
        self.drop_partitions(topic, range(1, topic.partitions + 1), directory)
        self._opened.pop(topic.number, None)
        self._removed.pop(topic.number, None)
        self.offsets(topic).close()  # after their removal, so that no thread opens them again
        self._offsets.pop(topic.number, None)

    def drop_partitions(self, topic: TopicRecord, numbers: Collection[int], directory: str) -> None:
        """Remove the directory of partitions that are no longer in the catalog; threads can still use the partitions.

        The directory is renamed first, so that threads find all files or none, and add no files. The new name has the
        topic number 0, which no topic has: after a crash, the next opening removes the directory.
        """
        for number in numbers:
            self._writing.pop((topic.number, number), None)
            partition = self._partitions.pop((topic.number, number), None)
            if partition is not None:
                self._opened.get(topic.number, {}).pop(number, None)
                partition.retire()
        removed = topic_directory(self.root, topic.stream_number, 0)
        self.files.remove_directory(removed)
        if self.files.exists(directory):
            self.files.rename(directory, removed)
            self.files.remove_directory(removed)
        for number in numbers:
            self._starts.pop((topic.number, number), None)
            self.note_removed(topic, number)
            self._readers.close_partition(topic.number, number)
            self.waiting.notify(self.partition_directory(topic, number))

    # -- messages -------------------------------------------------------------------------------------------

    def partition_directory(self, topic: TopicRecord, number: int) -> str:
        """Return the directory of a partition's segments."""
        return f"{topic_directory(self.root, topic.stream_number, topic.number)}/{number}"

    def append(
        self, topic: TopicRecord, number: int, sent: BytesLike, timestamp_us: int, seed: bytes, batch: BatchNumber | None = None
    ) -> Appended:
        """Append a batch, unless it was appended before; return its position. See PartitionWriter.append_numbered."""
        while True:
            partition = self.partition(topic, number)
            try:
                appended = partition.append_numbered(sent, timestamp_us, seed, batch, topic.options)
            except ReservedError:
                self.commits.resume(topic, number)
            else:
                self.notify(partition)
                return appended

    def notify(self, partition: PartitionWriter) -> None:
        """Wake all waiters of a partition."""
        self.waiting.notify(partition.directory)

    def notify_topic(self, topic: TopicRecord) -> None:
        """Wake all waiters of a topic."""
        for number in range(1, topic.partitions + 1):
            self.waiting.notify(self.partition_directory(topic, number))

    def notify_groups(self) -> None:
        """Wake all waiting members of consumer groups; never blocks, so that finalizers can call it."""
        self.waiting.notify(self.groups_directory)

    def partition(self, topic: TopicRecord, number: int) -> PartitionWriter:
        """Return the writer of a partition; PartitionNotFoundError if it was deleted since its topic's record was read."""
        key = topic.number, number
        with self._lock:
            self._writable_catalog()
            partition = self._partitions.get(key)
            if partition is None or partition.generation != topic.generation(number):
                check_exists(self.snapshot(), topic, number)
                finish_pass(self.partition_directory(topic, number), self.files)
                partition = self._partitions[key] = PartitionWriter(
                    self.partition_directory(topic, number),
                    self.files,
                    wide=topic.limits is Limits.WIDE,
                    segment_bytes=self.segment_bytes,
                    fsync=topic.fsync,
                    generation=topic.generation(number),
                    on_dirty=None if self.is_memory else self._syncer.add,
                )
                self._opened.setdefault(topic.number, {})[number] = partition
            self._writing[key] = partition
            self._writing.move_to_end(key)
            if len(self._writing) > self._max_open:
                with suppress(StorageError):  # the next append to that partition raises the error
                    self._writing.popitem(last=False)[1].close()
            return partition

    def note_removed(self, topic: TopicRecord, number: int) -> None:
        """Record that segments of a partition were removed or replaced."""
        with self._lock:
            removed = self._removed.setdefault(topic.number, {})
            removed[number] = removed.get(number, 0) + 1

    def count_removal(self, removal: Removal) -> None:
        """Add a removal of marked messages to this process's counts."""
        self.upkeep.count_removal(removal)

    def changes(self, topic: TopicRecord) -> dict[int, tuple[int, ...]]:
        """Return partition -> numbers that change with its messages, for partitions changed by this process; reads no file."""
        removed = self._removed.get(topic.number, {})
        changed: dict[int, tuple[int, ...]] = {number: (count,) for number, count in tuple(removed.items())}
        for number, partition in tuple(self._opened.get(topic.number, {}).items()):
            end = partition.end
            changed[number] = end.written, end.end_offset, end.base_offset, removed.get(number, 0)
        return changed

    def writing_end(self, topic: TopicRecord, number: int) -> PartitionEnd | None:
        """Return the PartitionEnd of a partition, always the same object; None before this process writes to it."""
        partition = self._partitions.get((topic.number, number))
        return None if partition is None else partition.end

    def written_end(self, topic: TopicRecord, number: int) -> int:
        """Return the end offset of a partition if this process has written to it, else 0; reads no file."""
        end = self.writing_end(topic, number)
        return 0 if end is None else end.end_offset

    def start_offset(self, topic: TopicRecord, number: int) -> int:
        """Return the log start offset of a partition; in the writer's process, files are only read after removals."""
        key, removed = (topic.number, number), self._removed.get(topic.number, {}).get(number, 0)
        known = self._starts.get(key)
        if known is None or known[0] != removed or not self._is_writer:
            with self.reading(topic, number) as follower:
                follower.refresh()
                known = self._starts[key] = removed, follower.first_offset
        return known[1]

    def reading(self, topic: TopicRecord, number: int) -> LockedFollower:
        """Return the follower of a partition, locked for one thread at a time; the caller must refresh it as needed."""
        self._check_open()
        return self._readers.find(topic.number, number, topic.generation(number), lambda: self.partition_directory(topic, number))

    def offsets(self, topic: TopicRecord) -> OffsetStore:
        """Return the consumer offsets of a topic."""
        with self._lock:
            self._check_open()
            store = self._offsets.get(topic.number)
            if store is None:
                directory = f"{topic_directory(self.root, topic.stream_number, topic.number)}/{OFFSETS_NAME}"
                store = self._offsets[topic.number] = OffsetStore(directory, self.files, self.open_offsets)
            return store

    def wait(
        self,
        directories: Collection[str],
        is_there: Callable[[Collection[str]], bool],
        timeout_s: float,
        monotonic: Callable[[], float],
    ) -> bool:
        """Wait until a condition holds or a timeout expires; return whether the condition holds. Appends wake the waiter.

        `is_there` is called with the partition directories that possibly changed, and reads the files.
        """

        def watch(changed: Collection[str]) -> bool:
            self._check_open()
            return self._is_writer or self.is_memory or self._watching.watch(changed)

        return self.waiting.wait_until(directories, is_there, timeout_s, monotonic, watch)

    def close(self) -> None:
        """Close all files and release the writer's lock; a second call does nothing.

        Raises:
            PartitionClosedError: acknowledged messages could not be synced; the log is closed anyway.
        """
        failure: StorageError | None = None
        self.upkeep.close()  # before this method acquires the lock, for which job threads can be waiting
        self.commits.close()
        with self._lock:
            if self._closed_because is not None:
                return
            self._closed_because = "the log is closed"
            self._syncer.close()
            for partition in self._partitions.values():
                try:
                    partition.close()
                except StorageError as error:
                    failure = error
            self._readers.close()
            for store in self._offsets.values():
                store.close()
            for catalog in (self._catalog, self._read_only):
                if catalog is not None:
                    catalog.close()
            self._is_writer = False
            self._writer_lock.release()
        self.waiting.notify_all()
        self._watching.close()
        if failure is not None:
            raise failure
