"""Log: one directory, or the memory of one process, with its catalog, partitions, offsets and the writer's lock.

Reading and committing offsets need no lock. The first write takes the lock and keeps it until close().
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Final

from headstream.codec.buffer import BytesLike
from headstream.errors import ClosedError, CorruptLogError, StorageError
from headstream.log.catalog import Catalog, Snapshot, TopicRecord
from headstream.log.files import Files
from headstream.log.lock import WriterLock
from headstream.log.marker import Marker, read_marker, write_marker
from headstream.log.offsets import OffsetStore
from headstream.log.partition import Partition
from headstream.log.retention import Retention, finish_drops
from headstream.log.states import MessageStates
from headstream.log.syncing import IntervalSyncer
from headstream.model.topology import Fsync, Limits
from headstream.segments.files import BufferPool
from headstream.segments.follower import PartitionFollower
from headstream.segments.layout import CATALOG_NAME, FORMAT_VERSION, LOCK_NAME, OFFSETS_NAME, topic_directory

__all__ = ["Log"]

_MAX_OPEN: Final = 128
"""Partitions that hold files open, for writing and for reading each: far from a usual limit of 1024 open files."""

_POOLED_BUFFERS: Final = 8
_WRITER_WAIT_S: Final = 1.0
_FIRST_LOOK_S: Final = 0.001
_LAST_LOOK_S: Final = 0.02
"""How often a process that is not the writer looks for new messages: soon at first, then more and more seldom."""


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
        self._is_memory = is_memory
        self._lock = threading.RLock()
        self.administration = threading.RLock()
        self._retention: Retention | None = None
        self._states: MessageStates | None = None
        self._writer_lock = WriterLock(f"{root}/{LOCK_NAME}")
        self._marker = read_marker(root, files)
        self._catalog: Catalog | None = None
        self._partitions: dict[tuple[int, int], Partition] = {}
        self._writing: OrderedDict[tuple[int, int], Partition] = OrderedDict()
        self._reading: OrderedDict[tuple[int, int, int], tuple[PartitionFollower, threading.Lock]] = OrderedDict()
        self._offsets: dict[int, OffsetStore] = {}
        self._syncer = IntervalSyncer()
        self._buffers = BufferPool(_POOLED_BUFFERS)
        self._waiting: list[SimpleQueue[None]] = []
        self._is_writer = False
        self._closed_because: str | None = None

    @property
    def identity(self) -> str | None:
        """The UUID that tells this log from every other, or None before its first write."""
        marker = self._found()
        return None if marker is None else marker.identity

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

    def start_writing(self, identity: str, created_us: int) -> None:
        """Become the log's writer, and make the log where there is none.

        Args:
            identity: The UUID of the log, should it be made now.
            created_us: The time of its making then, microseconds since 1970 UTC.

        Raises:
            LogLockedError: another process is the writer.
            NotALogError, LogVersionError, CorruptLogError, StorageError: the directory cannot be used.
        """
        if self._is_writer:
            return
        with self._lock:
            self._check_open()
            if self._is_writer:
                return
            self._found()
            self.files.make_directory(self.root)
            if not self._is_memory:
                self._writer_lock.acquire()
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
            self._is_writer = True

    def _use(self, catalog: Catalog) -> MessageStates:
        self._catalog = catalog
        self._states = MessageStates(catalog, self.files, self.partition_directory, self.administration)
        return self._states

    def _catalog_path(self, *, must_exist: bool) -> str | None:
        if self._is_memory:
            return None
        path = f"{self.root}/{CATALOG_NAME}"
        if must_exist and not self.files.exists(path):
            raise CorruptLogError("the log's catalog is missing", where=path, advice="Restore the file from a copy")
        return path

    def snapshot(self) -> Snapshot:
        """Return all streams and topics as they are now; nothing where there is no log yet."""
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

    def create_stream(self, name: str, created_us: int) -> None:
        """Add a stream; the caller has checked that there is none of that name."""
        with self._lock:
            catalog = self._writable_catalog()
            with catalog.transaction():
                catalog.insert_stream(name, created_us)

    def create_topic(
        self, stream: str, topic: str, partitions: int, limits: Limits, created_us: int, fsync: Fsync = Fsync.INTERVAL
    ) -> None:
        """Add a topic, and its stream where there is none; the caller has checked that it is not there."""
        with self._lock:
            catalog = self._writable_catalog()
            known = catalog.snapshot().get(stream)
            with catalog.transaction():
                stream_number = catalog.insert_stream(stream, created_us) if known is None else known.number
                number = catalog.insert_topic(stream_number, topic, partitions, limits, created_us, fsync)
                # Before the commit: a topic that exists has its directories, and those of one that never came to be
                # are empty and taken by the next.
                directory = topic_directory(self.root, stream_number, number)
                self.files.make_directory(f"{directory}/{OFFSETS_NAME}")
                for partition in range(1, partitions + 1):
                    self.files.make_directory(f"{directory}/{partition}")
                # What the catalog says after a power cut must be there: each directory's name stands in the one above it.
                while directory != self.root:
                    self.files.sync_directory(directory)
                    directory = directory.rpartition("/")[0]
                self.files.sync_directory(directory)

    def delete_stream(self, name: str) -> None:
        """Delete a stream with its topics; the caller has checked that it is there."""
        with self._lock:
            catalog = self._writable_catalog()
            stream = catalog.snapshot()[name]
            with catalog.transaction():
                catalog.delete_stream(stream.number)
            for topic in stream.topics.values():
                self.drop(topic)

    def delete_topic(self, topic: TopicRecord) -> None:
        """Delete a topic with its messages and offsets."""
        with self._lock:
            catalog = self._writable_catalog()
            with catalog.transaction():
                catalog.delete_topic(topic.number)
            self.drop(topic)

    @contextmanager
    def changing(self) -> Iterator[Catalog]:
        """Lend the catalog for a change of topics, to one thread at a time."""
        with self.administration, self._lock:
            yield self._writable_catalog()

    def start_retention(self, clock_us: Callable[[], int]) -> None:
        """Have what its topics do not keep dropped in the background, if one of them says so and it is not yet done."""
        topics = [topic for stream in self.snapshot().values() for topic in stream.topics.values()]
        with self._lock:
            if self._retention is None and any(topic.retention_us or topic.retention_bytes for topic in topics):
                self._writable_catalog()
                self._retention = Retention(self, clock_us)
                self._retention.start()

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
        for reading in [known for known in self._reading if known[:2] == key]:
            follower, lock = self._reading.pop(reading)
            with lock:
                follower.close()

    # -- messages -------------------------------------------------------------------------------------------

    def partition_directory(self, topic: TopicRecord, number: int) -> str:
        """Return where a partition's segments are: what a PartitionFollower in another process takes."""
        return f"{topic_directory(self.root, topic.stream_number, topic.number)}/{number}"

    def append(self, topic: TopicRecord, number: int, sent: BytesLike, timestamp_us: int, seed: bytes) -> int:
        """Append a batch to a partition and return the offset of its first message; see Partition.append."""
        first_offset = self._partition(topic, number).append(sent, timestamp_us, seed)
        self._wake()
        return first_offset

    def _wake(self) -> None:
        if self._waiting:
            for bell in tuple(self._waiting):
                bell.put(None)

    def _partition(self, topic: TopicRecord, number: int) -> Partition:
        key = topic.number, number
        with self._lock:
            self._writable_catalog()
            partition = self._partitions.get(key)
            if partition is None:
                finish_drops(self.partition_directory(topic, number), self.files)
                partition = self._partitions[key] = Partition(
                    self.partition_directory(topic, number),
                    self.files,
                    wide=topic.limits is Limits.WIDE,
                    segment_bytes=self.segment_bytes,
                    fsync=topic.fsync,
                    on_dirty=None if self._is_memory else self._syncer.add,
                )
            self._writing[key] = partition
            self._writing.move_to_end(key)
            if len(self._writing) > _MAX_OPEN:
                with suppress(StorageError):  # it concerns the next who appends to that one, and is kept for him
                    self._writing.popitem(last=False)[1].close()
            return partition

    @contextmanager
    def reading(self, topic: TopicRecord, number: int) -> Iterator[PartitionFollower]:
        """Lend the follower of a partition to one thread at a time; refresh it as needed."""
        key = topic.number, number, topic.generation(number)
        with self._lock:
            self._check_open()
            lent = self._reading.get(key)
            if lent is None:
                follower = PartitionFollower(self.partition_directory(topic, number), self.files, self._buffers)
                lent = self._reading[key] = follower, threading.Lock()
            self._reading.move_to_end(key)
            evicted = self._reading.popitem(last=False)[1] if len(self._reading) > _MAX_OPEN else None
        if evicted is not None:
            with evicted[1]:
                evicted[0].close()
        with lent[1]:
            yield lent[0]

    def offsets(self, topic: TopicRecord) -> OffsetStore:
        """Return the consumer offsets of a topic."""
        with self._lock:
            self._check_open()
            store = self._offsets.get(topic.number)
            if store is None:
                directory = f"{topic_directory(self.root, topic.stream_number, topic.number)}/{OFFSETS_NAME}"
                store = self._offsets[topic.number] = OffsetStore(directory, self.files)
            return store

    def wait(self, is_there: Callable[[], bool], timeout_s: float, monotonic: Callable[[], float]) -> bool:
        """Wait until something is there, or a time has passed, and return whether it is.

        Appends of this process wake the waiting; those of another are looked for.

        Args:
            is_there: What to ask; it looks at the files.
            timeout_s: How long to wait at most.
            monotonic: A clock in seconds.
        """
        until = monotonic() + timeout_s
        look_s = _FIRST_LOOK_S
        # A queue in C, unlike a Condition, leaves nothing half done when Ctrl-C interrupts it.
        bell: SimpleQueue[None] = SimpleQueue()
        self._waiting.append(bell)
        try:
            while True:
                self._check_open()
                if is_there():
                    return True
                rest = until - monotonic()
                if rest <= 0:
                    return False
                with suppress(Empty):
                    bell.get(timeout=min(rest, _WRITER_WAIT_S if self._is_writer else look_s))
                look_s = min(look_s * 2, _LAST_LOOK_S)
        finally:
            self._waiting.remove(bell)

    def close(self) -> None:
        """Let go of all files and of the writer's lock; closing twice is fine.

        Raises:
            PartitionClosedError: what was acknowledged could not be synced; everything is closed all the same.
        """
        failure: StorageError | None = None
        if self._retention is not None:
            self._retention.close()  # before the lock is taken, which its thread may be waiting for
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
            for follower, lock in self._reading.values():
                with lock:
                    follower.close()
            for store in self._offsets.values():
                store.close()
            if self._catalog is not None:
                self._catalog.close()
            self._is_writer = False
            self._writer_lock.release()
        self._wake()
        if failure is not None:
            raise failure

    def abandon(self) -> None:
        """Make it unusable in a forked child, without touching what belongs to the parent."""
        self._closed_because = "the log was opened before this process was forked"
        self._is_writer = False
