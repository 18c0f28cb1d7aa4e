"""Log: one directory, or the memory of one process, with its catalog, partitions, offsets and the writer's lock.

Reading and committing offsets need no lock. The first write takes the lock and keeps it until close().
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from headstream.codec.buffer import BytesLike
from headstream.errors import ClosedError, CorruptLogError, StorageError
from headstream.log.background import Background
from headstream.log.catalog import Catalog, Snapshot, TopicRecord
from headstream.log.closed_segments import finish_pass
from headstream.log.commits import StagedCommits
from headstream.log.files import Files
from headstream.log.linux import max_open_files
from headstream.log.lock import WriterLock
from headstream.log.marker import Marker, read_marker, write_marker
from headstream.log.offsets import OffsetStore, OpenOffsets
from headstream.log.partition import Partition, ReservedError
from headstream.log.partition_end import PartitionEnd
from headstream.log.readers import Lent, Readers
from headstream.log.states import MessageStates
from headstream.log.sweeping import sweep_directories
from headstream.log.syncing import IntervalSyncer
from headstream.log.waiting import Waiting
from headstream.log.watching import Watching
from headstream.model.producers import Appended, BatchNumber
from headstream.model.topology import Limits
from headstream.segments.layout import CATALOG_NAME, FORMAT_VERSION, GROUPS_NAME, LOCK_NAME, OFFSETS_NAME, topic_directory

__all__ = ["Log"]

_T = TypeVar("_T")
_MAX_OPEN: Final = 2048
_MAX_OPEN_OFFSETS: Final = 2048
"""Partitions that hold files open, for writing and for reading each, two or three files; consumer offsets' files too. Of what
this process may open, three eighths are theirs. Enough of them matter: to close one is a sync and a search for its end."""

_TOLD_LOOK_S: Final = 1.0
"""How often those who wait look for new messages though they would be told of them: for what tells no one, such as a
file system that another machine writes to."""

_FIRST_LOOK_S: Final = 0.001
_LAST_LOOK_S: Final = 0.02
"""How often they look where nothing tells them: soon at first, then more and more seldom."""


class Log:
    """A log of streams, topics and partitions; any thread. shared.py opens one.

    Args:
        root: The directory.
        files: Where it is.
        is_memory: Whether it lives and dies with this process.
        segment_bytes: Size at which a partition's segment is followed by a new one.
    """

    def __init__(self, root: str, files: Files, *, is_memory: bool, segment_bytes: int) -> None:
        self.root = root
        self.files = files
        self.segment_bytes = segment_bytes
        self.is_memory = is_memory
        self._lock = threading.RLock()
        self._max_open = min(_MAX_OPEN, max(16, max_open_files() // 16))
        self.administration = threading.RLock()
        self.background = Background(self)
        self._states: MessageStates | None = None
        self.commits = StagedCommits(self)
        self._writer_lock = WriterLock(f"{root}/{LOCK_NAME}")
        self._marker = read_marker(root, files)
        self._catalog: Catalog | None = None
        self._partitions: dict[tuple[int, int], Partition] = {}
        self._writing: OrderedDict[tuple[int, int], Partition] = OrderedDict()
        self._readers = Readers(files, self._max_open)
        self._offsets: dict[int, OffsetStore] = {}
        self._open_offsets = OpenOffsets(min(_MAX_OPEN_OFFSETS, max(16, max_open_files() // 16)))
        self._syncer = IntervalSyncer()
        self.waiting = Waiting()
        self._watching = Watching(self.waiting)
        self._is_writer = False
        self._closed_because: str | None = None

    @property
    def identity(self) -> str | None:
        """The UUID that tells this log from every other, or None before its first write."""
        marker = self._found()
        return None if marker is None else marker.identity

    @property
    def groups_directory(self) -> str:
        """Where the locks of consumer groups are, and what their members are woken by."""
        return f"{self.root}/{GROUPS_NAME}"

    @property
    def is_writer(self) -> bool:
        """Whether this process is the log's writer."""
        return self._is_writer

    def _check_open(self) -> None:
        if self._closed_because is not None:
            raise ClosedError(self._closed_because, where=self.root, advice="Connect again")

    def _found(self) -> Marker | None:
        if self._marker is None:
            self._marker = read_marker(self.root, self.files)
        return self._marker

    # -- metadata -------------------------------------------------------------------------------------------

    def start_writing(self, identity: str, created_us: int, *, briefly: bool = False) -> None:
        """Become the log's writer, and make the log where there is none.

        Args:
            identity: The UUID of the log, should it be made now.
            created_us: The time of its making then, microseconds since 1970 UTC.
            briefly: Whether it is for a moment, which others who want to write wait for.

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
            try:
                self._marker = read_marker(self.root, self.files)
                catalog = Catalog(self._catalog_path(must_exist=self._marker is not None), is_writer=True)
                if self._marker is None:
                    self._marker = Marker(FORMAT_VERSION, identity, created_us)
                    write_marker(self.root, self.files, self._marker)
            except BaseException:
                self._writer_lock.release()
                raise
            if self._catalog is not None:
                self._catalog.close()
            self._use(catalog).repair()
            sweep_directories(self.root, self.files, catalog)
            self._is_writer = True
            try:
                self.commits.resume()
            except BaseException:
                self._is_writer = False
                self._writer_lock.release()
                raise
            if not (self.is_memory or briefly):
                self.commits.start()

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
        """Return what is known of streams and topics; None where there is no log yet."""
        with self._lock:
            self.snapshot()
            return self._catalog

    def snapshot(self) -> Snapshot:
        """Return all streams and topics as they are now; nothing where there is no log yet."""
        known = self._catalog.known if self._is_writer and self._catalog is not None else None
        if known is not None:  # each send asks this twice: without the lock, which a change of topics can hold long
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
        """The states of its messages; there is a log, snapshot() has said so."""
        self._check_open()
        if self._states is None:
            raise AssertionError("snapshot() comes first")
        return self._states

    def _writable_catalog(self) -> Catalog:
        self._check_open()
        if self._catalog is None or not self._is_writer:
            raise AssertionError("start_writing() comes first")
        return self._catalog

    @contextmanager
    def changing(self) -> Iterator[Catalog]:
        """Lend the catalog for a change of topics, to one thread at a time."""
        with self.administration, self._lock:
            yield self._writable_catalog()

    def roll(self, topic: TopicRecord, number: int) -> None:
        """Begin a new segment of a partition, unless the newest is empty; see Partition.roll."""
        self.partition(topic, number).roll()

    def drop(self, topic: TopicRecord) -> None:
        """Let go of a topic's files and remove them."""
        for number in range(1, topic.partitions + 1):
            self.let_go(topic, number)
        offsets = self._offsets.pop(topic.number, None)
        if offsets is not None:
            offsets.close()
        self.files.remove_directory(topic_directory(self.root, topic.stream_number, topic.number))

    def let_go(self, topic: TopicRecord, number: int) -> None:
        """Let go of a partition's files, which are about to be removed."""
        key = topic.number, number
        self._writing.pop(key, None)
        partition = self._partitions.pop(key, None)
        if partition is not None:
            with suppress(StorageError):  # what cannot be synced is about to be removed
                partition.close()
        self._readers.let_go(*key)
        self.waiting.ring(self.partition_directory(topic, number))

    # -- messages -------------------------------------------------------------------------------------------

    def partition_directory(self, topic: TopicRecord, number: int) -> str:
        """Return where a partition's segments are: what a PartitionFollower in another process takes."""
        return f"{topic_directory(self.root, topic.stream_number, topic.number)}/{number}"

    def append(self, topic: TopicRecord, number: int, sent: BytesLike, timestamp_us: int, seed: bytes) -> int:
        """Append a batch to a partition and return the offset of its first message; see Partition.append."""
        return self._append(topic, number, lambda partition: partition.append(sent, timestamp_us, seed, topic.options))

    def append_numbered(
        self, topic: TopicRecord, number: int, sent: BytesLike, timestamp_us: int, seed: bytes, batch: BatchNumber | None
    ) -> Appended:
        """Append a batch that may have been appended before, and return where it is; see Partition.append_numbered."""
        return self._append(
            topic, number, lambda partition: partition.append_numbered(sent, timestamp_us, seed, batch, topic.options)
        )

    def _append(self, topic: TopicRecord, number: int, append: Callable[[Partition], _T]) -> _T:
        while True:
            partition = self.partition(topic, number)
            try:
                appended = append(partition)
            except ReservedError:
                self.commits.resume(topic, number)
            else:
                self.ring(partition)
                return appended

    def ring(self, partition: Partition) -> None:
        """Have all who wait for messages of a partition look again."""
        self.waiting.ring(partition.directory)

    def ring_topic(self, topic: TopicRecord) -> None:
        """Have all who wait for messages of a topic look again."""
        for number in range(1, topic.partitions + 1):
            self.waiting.ring(self.partition_directory(topic, number))

    def ring_groups(self) -> None:
        """Have all members of consumer groups who wait look again; it waits for nothing, so that a finalizer may call it."""
        self.waiting.ring(self.groups_directory)

    def partition(self, topic: TopicRecord, number: int) -> Partition:
        """Return the writer's side of a partition."""
        key = topic.number, number
        with self._lock:
            self._writable_catalog()
            partition = self._partitions.get(key)
            if partition is None:
                finish_pass(self.partition_directory(topic, number), self.files)
                partition = self._partitions[key] = Partition(
                    self.partition_directory(topic, number),
                    self.files,
                    wide=topic.limits is Limits.WIDE,
                    segment_bytes=self.segment_bytes,
                    fsync=topic.fsync,
                    on_dirty=None if self.is_memory else self._syncer.add,
                )
            self._writing[key] = partition
            self._writing.move_to_end(key)
            if len(self._writing) > self._max_open:
                with suppress(StorageError):  # it concerns the next who appends to that one, and is kept for him
                    self._writing.popitem(last=False)[1].close()
            return partition

    def writing_end(self, topic: TopicRecord, number: int) -> PartitionEnd | None:
        """Return where a partition is written on, the same object as long as it is there; None where this process has not yet."""
        partition = self._partitions.get((topic.number, number))
        return None if partition is None else partition.end

    def written_end(self, topic: TopicRecord, number: int) -> int:
        """Return the end offset of a partition as far as this process has written to it, else 0; it asks no file."""
        end = self.writing_end(topic, number)
        return 0 if end is None else end.end_offset

    def reading(self, topic: TopicRecord, number: int) -> Lent:
        """Lend the follower of a partition to one thread at a time; refresh it as needed."""
        self._check_open()
        return self._readers.find(topic.number, number, topic.generation(number), lambda: self.partition_directory(topic, number))

    def offsets(self, topic: TopicRecord) -> OffsetStore:
        """Return the consumer offsets of a topic."""
        with self._lock:
            self._check_open()
            store = self._offsets.get(topic.number)
            if store is None:
                directory = f"{topic_directory(self.root, topic.stream_number, topic.number)}/{OFFSETS_NAME}"
                store = self._offsets[topic.number] = OffsetStore(directory, self.files, self._open_offsets)
            return store

    def wait(
        self,
        directories: Collection[str],
        is_there: Callable[[Collection[str]], bool],
        timeout_s: float,
        monotonic: Callable[[], float],
    ) -> bool:
        """Wait until something is there, or a time has passed, and return whether it is.

        Appends of this process wake the waiting, and those of another where the system tells of them.

        Args:
            directories: The partitions' directories, see partition_directory().
            is_there: What to ask, with those of the directories in which there may be something new; it looks at the files.
            timeout_s: How long to wait at most.
            monotonic: A clock in seconds.
        """
        until = monotonic() + timeout_s
        look_s = _FIRST_LOOK_S
        with self.waiting.bell(directories) as bell:
            due = directories
            is_told = True
            while True:
                self._check_open()
                is_told = self._is_writer or self.is_memory or (self._watching.watch(due) and is_told)
                if is_there(due):
                    return True
                rest = until - monotonic()
                if rest <= 0:
                    return False
                due = bell.listen(min(rest, _TOLD_LOOK_S if is_told else look_s)) or directories
                look_s = min(look_s * 2, _LAST_LOOK_S)

    def close(self) -> None:
        """Let go of all files and of the writer's lock; closing twice is fine.

        Raises:
            PartitionClosedError: what was acknowledged could not be synced; everything is closed all the same.
        """
        failure: StorageError | None = None
        self.background.close()  # before the lock is taken, which its threads may be waiting for
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
            if self._catalog is not None:
                self._catalog.close()
            self._is_writer = False
            self._writer_lock.release()
        self.waiting.ring_all()
        self._watching.close()
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Make it unusable in a forked child, without touching what belongs to the parent."""
        self._closed_because = "the log was opened before this process was forked"
        self._is_writer = False
