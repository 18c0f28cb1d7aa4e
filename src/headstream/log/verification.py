"""A whole log, checked: marker, catalog, directories, every index entry, every send, every payload.

It takes no lock and writes nothing, so it may run beside the writer and its readers; repair.py is what changes things.
What is found is yielded as it is found, and a log without damage yields nothing that says is_damage.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final

from headstream.errors import CorruptLogError, InvalidInputError, NotALogError, PartitionNotFoundError, StorageError
from headstream.log.catalog import Catalog, Snapshot, TopicRecord
from headstream.log.files import Files
from headstream.log.findings import SET_ASIDE, Finding, FindingKind
from headstream.log.marker import Marker, read_marker
from headstream.log.offsets import OffsetStore
from headstream.log.partition_verification import verify_partition
from headstream.model.polling import Consumer
from headstream.segments.files import BufferPool, ReadFiles
from headstream.segments.follower import PartitionFollower
from headstream.segments.layout import (
    CATALOG_NAME,
    MARKER_NAME,
    OFFSETS_NAME,
    STREAMS_NAME,
    log_offsets,
    log_suffix,
    segment_path,
    topic_directory,
)

__all__ = ["Place", "Verification"]

_UNREADABLE: Final = (CorruptLogError, InvalidInputError, ValueError, KeyError)
"""What a catalog raises that SQLite finds sound, and whose words and numbers are none."""


@dataclass(frozen=True, slots=True)
class Place:
    """A partition of the catalog, and where it lies."""

    topic: str
    partition: int
    directory: str


class Verification:
    """The check of one log.

    Args:
        root: The log's directory.
        files: Where it is.

    Raises:
        NotALogError: there is no log.
        LogVersionError: a newer Headstream wrote it.
        StorageError: the directory cannot be read.
    """

    def __init__(self, root: str, files: Files) -> None:
        self._root = root
        self._files = files
        self._buffers = BufferPool()
        self._marker: Marker | None = None
        self._marker_error: CorruptLogError | None = None
        try:
            self._marker = read_marker(root, files)
        except CorruptLogError as error:
            self._marker_error = error
        if self._marker is None and self._marker_error is None:
            raise NotALogError(
                "there is no log", where=root, advice="Name the directory that holds headstream.json, or its file:// URL"
            )

    def run(self, on_bytes: Callable[[int], None] = lambda _: None) -> Iterator[Finding]:
        """Yield what is wrong with the log, in the order of marker, catalog, topics, partitions, offsets.

        Args:
            on_bytes: Called with the number of bytes of messages that were checked since.
        """
        yield from self._check_marker()
        catalog = self._open_catalog()
        if isinstance(catalog, Finding):
            yield catalog
            return
        try:
            yield from self._check_catalog(catalog)
            places = list(self._places(catalog.snapshot()))
            for place in places:
                yield from self._check_place(place, catalog, on_bytes)
            yield from self._check_offsets(catalog.snapshot())
            yield from self._strange_directories(catalog.snapshot())
        except _UNREADABLE as error:
            yield self._catalog_finding(f"its content cannot be: {error}")
        finally:
            catalog.close()

    def places(self) -> list[Place]:
        """Return every partition of the catalog; none where the catalog cannot be read."""
        catalog = self._open_catalog()
        if isinstance(catalog, Finding):
            return []
        try:
            return list(self._places(catalog.snapshot()))
        except _UNREADABLE:
            return []
        finally:
            catalog.close()

    def size_bytes(self) -> int:
        """Return about how many bytes of messages there are to check."""
        total = 0
        for place in self.places():
            for base, generation in log_offsets(self._files.list_names(place.directory) or []):
                file = self._files.open_read(segment_path(place.directory, base, log_suffix(generation)))
                if file is not None:
                    total += file.size_bytes()
                    file.close()
        return total

    # -- marker and catalog -----------------------------------------------------------------------------------

    def _check_marker(self) -> Iterator[Finding]:
        path = f"{self._root}/{MARKER_NAME}"
        if self._marker_error is not None:
            yield Finding(FindingKind.MARKER, path, str(self._marker_error), "Restore the file from a copy")
        elif self._marker is not None and not _is_uuid(self._marker.identity):
            yield Finding(FindingKind.MARKER, path, "the log's identity is no UUID", "Restore the file from a copy")

    def _open_catalog(self) -> Catalog | Finding:
        path = f"{self._root}/{CATALOG_NAME}"
        if not self._files.exists(path):
            return self._catalog_finding("it is missing: nobody knows which topic a directory belongs to")
        try:
            return Catalog(path, is_writer=False)
        except (CorruptLogError, StorageError) as error:
            return self._catalog_finding(str(error))

    def _catalog_finding(self, what: str) -> Finding:
        return Finding(
            FindingKind.CATALOG,
            f"{self._root}/{CATALOG_NAME}",
            what,
            "Restore the file from a copy; the messages beside it are not touched by this",
        )

    def _check_catalog(self, catalog: Catalog) -> Iterator[Finding]:
        for problem in catalog.find_problems():
            yield self._catalog_finding(problem)

    # -- directories ------------------------------------------------------------------------------------------

    def _places(self, snapshot: Snapshot) -> Iterator[Place]:
        for topic in _topics(snapshot):
            for number in range(1, topic.partitions + 1):
                yield Place(str(topic.name), number, f"{self._topic_directory(topic)}/{number}")

    def _topic_directory(self, topic: TopicRecord) -> str:
        return topic_directory(self._root, topic.stream_number, topic.number)

    def _check_place(self, place: Place, catalog: Catalog, on_bytes: Callable[[int], None]) -> Iterator[Finding]:
        if self._files.list_names(place.directory) is None:
            if place in self._places(catalog.snapshot()):  # not deleted in the meantime
                yield Finding(
                    FindingKind.DIRECTORY_MISSING,
                    place.directory,
                    "the partition's directory is missing, and all its messages with it",
                    "Restore it from a copy, or delete the topic",
                    place.topic,
                    place.partition,
                )
            return
        try:
            for finding in verify_partition(place.directory, self._files, self._buffers, on_bytes):
                yield replace(finding, topic=place.topic, partition=place.partition)
        except StorageError as error:
            what, advice = f"the partition cannot be read: {error}", "Mend what the system reports, and verify again"
            yield Finding(FindingKind.UNREADABLE, place.directory, what, advice, place.topic, place.partition)

    def _check_offsets(self, snapshot: Snapshot) -> Iterator[Finding]:
        for topic in _topics(snapshot):
            directory = f"{self._topic_directory(topic)}/{OFFSETS_NAME}"
            store = OffsetStore(directory, self._files)
            advice = "Move the file away, and seek to where the consumer is to go on"
            for path, is_empty in store.damaged_heads():
                yield self._damaged_head(path, str(topic.name), is_empty=is_empty)
            for consumer in store.consumers():
                for number in range(1, topic.partitions + 1):
                    try:
                        committed = store.committed(consumer, number)
                    except CorruptLogError as error:
                        yield Finding(FindingKind.OFFSETS, directory, str(error), advice, str(topic.name), number)
                    else:
                        yield from self._check_committed(topic, number, consumer, committed or 0)

    @staticmethod
    def _damaged_head(path: str, topic: str, *, is_empty: bool) -> Finding:
        if is_empty:
            what = "a first commit that did not end: nothing is committed in it"
            advice = "Nothing needs to be done: the consumer's next commit writes the file whole"
        else:
            what = "the head of an offsets file is damaged: it does not say whose it is"
            advice = "Nothing needs to be done: the consumer's next commit writes it again"
        return Finding(FindingKind.OFFSETS, path, what, advice, topic, is_damage=not is_empty)

    def _check_committed(self, topic: TopicRecord, number: int, consumer: Consumer, committed: int) -> Iterator[Finding]:
        """Say where a consumer has come further than its partition goes: messages are missing that it has had."""
        directory = f"{self._topic_directory(topic)}/{number}"
        with suppress(CorruptLogError, StorageError, PartitionNotFoundError):
            with PartitionFollower(directory, self._files) as follower:
                end = follower.end_offset
            if committed > end:
                what = f"{consumer} has committed offset {committed}, and the partition ends at {end}: its last messages are lost"
                advice = "Restore the newest segment from a copy, or seek to where the consumer is to go on"
                yield Finding(
                    FindingKind.OFFSETS, directory, what, advice, str(topic.name), number, from_offset=end, until_offset=committed
                )

    def _strange_directories(self, snapshot: Snapshot) -> Iterator[Finding]:
        known = {self._topic_directory(topic) for topic in _topics(snapshot)}
        streams = f"{self._root}/{STREAMS_NAME}"
        for stream in sorted(_list_directories(self._files, streams)):
            for topic in sorted(_list_directories(self._files, f"{streams}/{stream}")):
                path = f"{streams}/{stream}/{topic}"
                if SET_ASIDE in topic:
                    what = "a topic's directory that was set aside when the log was opened: the catalog did not know it"
                    yield Finding(
                        FindingKind.FILE_SET_ASIDE, path, what, "Look whether it is needed, and remove it", is_damage=False
                    )
                elif path not in known:
                    yield Finding(
                        FindingKind.DIRECTORY_STRANGE,
                        path,
                        "a topic's directory that is not in the catalog: left by a deletion or creation that was broken off",
                        "Look whether it is needed, and remove it",
                        is_damage=False,
                    )


def _list_directories(files: ReadFiles, path: str) -> list[str]:
    """Return the names in a directory; none where it is no directory, or a missing one."""
    try:
        return files.list_names(path) or []
    except StorageError:
        return []


def _topics(snapshot: Snapshot) -> Iterator[TopicRecord]:
    for stream in snapshot.values():
        yield from stream.topics.values()


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False
