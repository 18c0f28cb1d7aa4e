"""Importer: one run of an import.

    read a chunk of lines -> keep the place, with the ends of the partitions they go to -> send -> acknowledged -> next chunk

When an import goes on after a break, what the log holds from those ends on is looked through for messages of the one
chunk that was on its way: a line that names no id gets one made of the import and the line's number, and its partition
is chosen by its key or its line's number, so that a line always makes the same message. A state other than available is
set when a chunk is stored.

The place is exact when the process dies. What a power cut may cost is the log's own affair.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import xxhash

from headstream.cli.importing.place import digest_before, load_place, place_path, save_place
from headstream.cli.importing.reading import Line, read_lines
from headstream.cli.importing.topics import TopicNeeds, plan_topics
from headstream.errors import (
    DecodeError,
    HeadstreamError,
    InvalidInputError,
    NotFoundError,
    PartitionNotFoundError,
    StorageError,
)
from headstream.model.constructors import int64
from headstream.model.message import Message, MessageState
from headstream.model.polling import partition_of
from headstream.model.reserved import TIMESTAMP_HEADER
from headstream.model.topology import Limits

if TYPE_CHECKING:
    from headstream.client.client import Client
    from headstream.client.producer import Producer

__all__ = ["ImportOptions", "Imported", "Importer"]

_CHUNK_LINES: Final = 5000
_CHUNK_BYTES: Final = 4 << 20
"""A chunk: so much is looked through again after a break, and held in memory as values."""
_LINGER_MS: Final = 1000
"""Batches go when they are full, or at a chunk's end."""
_READ_COUNT: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How a file is imported.

    Args:
        topic: Where messages go whose lines name no topic.
        bad_lines: Where bad lines are put; None stops at the first.
        partitions: How many partitions a topic gets that is made, where no line names a higher one.
        limits: What a topic takes that is made; None is what its messages need.
        on_progress: Called with the byte position after every chunk.
        on_bad_line: Called with the reason of every line that is put away.
    """

    topic: str | None = None
    bad_lines: Path | None = None
    partitions: int = 1
    limits: Limits | None = None
    on_progress: Callable[[int], None] = lambda _: None
    on_bad_line: Callable[[str], None] = lambda _: None


@dataclass(slots=True)
class Imported:
    """What a run has done.

    Args:
        lines: Lines of the file that are done, in all runs.
        sent: Messages sent by this run.
        found: Messages of this run's lines that an earlier run had sent already.
        bad: Lines that this run has put away.
        created: Topics that it made.
    """

    lines: int = 0
    sent: int = 0
    found: int = 0
    bad: int = 0
    created: list[str] = field(default_factory=list)


class Importer:
    """One run of an import.

    Args:
        log: Where to.
        file: JSON lines; its place is kept in FILE.progress.
        options: How.

    Raises:
        InvalidInputError: the progress file, the file or the log is not the one the import began with.
        StorageError: a file cannot be read.
    """

    def __init__(self, log: Client, file: Path, options: ImportOptions) -> None:
        self._log = log
        self._file = file
        self._options = options
        self._place = load_place(file)
        self._seed = xxhash.xxh3_64_intdigest(self._place.import_id.encode())
        self._done = Imported(lines=self._place.lines)
        self._producers: dict[str, Producer] = {}
        self._partitions: dict[str, int] = {}
        self._needs: dict[str, TopicNeeds] | None = None
        self._sent_until: dict[tuple[str, int], int] = {}
        self._bad_file: BinaryIO | None = None
        self._check_same()

    def run(self) -> Imported:
        """Import from the place on to the end of the file.

        Raises:
            InvalidInputError: a line is bad, and nothing was said about where to put it; what is before it is imported.
            HeadstreamError: the log refuses.
        """
        with ExitStack() as stack:
            if self._options.bad_lines is not None:
                self._bad_file = stack.enter_context(self._open_bad_lines(self._options.bad_lines))
            in_doubt = self._place.until > self._place.lines
            for chunk in self._chunks():
                self._open_topics(chunk, stack)
                if in_doubt:
                    self._find_sent(chunk)
                else:  # in doubt, the place that was kept still says where to look
                    self._save(until=chunk[-1].number)
                self._send(chunk)
                in_doubt = False
                self._sent_until.clear()
                self._options.on_progress(self._place.byte_position)
            self._save(until=self._place.lines)
        return self._done

    # -- the place ----------------------------------------------------------------------------------------------

    def _check_same(self) -> None:
        place = self._place
        again = f"Move {place_path(self._file).name} away to import it from the beginning"
        if place.byte_position and digest_before(self._file, place.byte_position) != place.digest:
            raise InvalidInputError(
                "the file is not the one that the import began with: what was imported of it has changed",
                where=str(self._file),
                advice=again,
            )
        if place.log is not None and self._log.identity != place.log:
            raise InvalidInputError("the import of this file began into another log", where=str(self._file), advice=again)

    def _find_sent(self, chunk: list[Line]) -> None:
        """Find the last line of the chunk that was on its way which each partition has got.

        A partition gets its lines in order, so it has had all before that one too, though compaction or retention may
        have removed some since.
        """
        present = Counter(place for place, _ in self._look_through())
        for line in chunk:
            if line.message is not None and line.message.topic is not None:
                partition, message_id = self._locate(line.message, line.number)
                if present[line.message.topic, partition, message_id] > 0:
                    present[line.message.topic, partition, message_id] -= 1
                    self._sent_until[line.message.topic, partition] = line.number

    def _look_through(self) -> Iterator[tuple[tuple[str, int, int], int]]:
        """Iterate over what lies behind the ends that were kept: topic, partition and message id, and its offset."""
        for topic, ends in self._place.ends.items():
            for number, offset in ends.items():
                partition = int(number)
                while found := self._log.poll(topic, partition, start=offset, count=_READ_COUNT, states=None):
                    yield from (((topic, partition, message.id), message.offset or 0) for message in found)
                    offset = (found[-1].offset or 0) + 1

    def _save(self, *, until: int) -> None:
        """Keep the place; everything sent until now is acknowledged."""
        place = self._place
        place.log = self._log.identity
        place.until = until
        place.digest = digest_before(self._file, place.byte_position)
        place.ends = {
            topic: {str(partition.number): partition.end_offset for partition in self._log.topic(topic).partitions}
            for topic in self._producers
        }
        place.bad_lines = None
        if self._bad_file is not None and self._options.bad_lines is not None:
            self._bad_file.flush()
            place.bad_lines = {"path": str(self._options.bad_lines.resolve()), "size_bytes": self._bad_file.tell()}
        save_place(self._file, place)

    # -- lines --------------------------------------------------------------------------------------------------

    def _read(self) -> Iterator[Line]:
        return read_lines(self._file, self._place.byte_position, self._place.lines + 1, self._options.topic)

    def _chunks(self) -> Iterator[list[Line]]:
        """Iterate over the lines from the place on in chunks, the first one as it was if it is in doubt."""
        last = self._place.until if self._place.until > self._place.lines else None
        chunk: list[Line] = []
        size_bytes = 0
        for line in self._read():
            chunk.append(line)
            size_bytes += len(line.raw)
            is_whole = len(chunk) >= _CHUNK_LINES or size_bytes >= _CHUNK_BYTES
            if line.number == last if last is not None else is_whole:
                yield chunk
                chunk, size_bytes, last = [], 0, None
        if chunk:
            yield chunk

    def _open_bad_lines(self, path: Path) -> BinaryIO:
        """Open the file of bad lines; what was put there after the place is cut off, since it comes again."""
        kept = self._place.bad_lines
        try:
            file = path.open("ab")
            if kept is not None and kept["path"] == str(path.resolve()) and file.tell() > kept["size_bytes"]:
                file.truncate(kept["size_bytes"])
                file.seek(kept["size_bytes"])
        except OSError as error:
            raise StorageError(f"cannot open the file for bad lines: {error.strerror}", where=str(path)) from error
        return file

    # -- sending ------------------------------------------------------------------------------------------------

    def _open_topics(self, chunk: list[Line], stack: ExitStack) -> None:
        """Make producers for the topics of a chunk, and the topics that are not there."""
        for name in dict.fromkeys(line.message.topic for line in chunk if line.message is not None):
            if name is None or name in self._producers:
                continue
            try:
                topic = self._log.topic(name)
            except NotFoundError:
                if self._needs is None:
                    self._needs = plan_topics(self._read())
                needs = self._needs.get(name, TopicNeeds())
                limits = self._options.limits or (Limits.WIDE if needs.is_wide else Limits.IGGY)
                partitions = max(needs.partitions, self._options.partitions)
                topic = self._log.create_topic(name, partitions, limits=limits, if_not_exists=True)
                self._done.created.append(name)
            self._partitions[name] = len(topic.partitions)
            self._producers[name] = stack.enter_context(self._log.producer(name, linger_ms=_LINGER_MS))

    def _send(self, chunk: list[Line]) -> None:
        """Send a chunk's messages, and move the place behind it, or to the line that stops the import."""
        stop: tuple[Line, HeadstreamError] | None = None
        for line in chunk:
            fault = line.fault or self._send_line(line)
            if fault is None:
                continue
            if self._bad_file is None:
                stop = line, fault
                break
            self._put_away(line, fault)
        for producer in self._producers.values():
            producer.flush()
        self._set_states(chunk)
        end = chunk[-1]
        place = self._place
        if stop is None:
            place.byte_position, place.lines = end.byte_position + len(end.raw), end.number
        else:
            place.byte_position, place.lines = stop[0].byte_position, stop[0].number - 1
        self._done.lines = place.lines
        if stop is not None:
            self._save(until=place.lines)
            raise InvalidInputError(
                f"line {stop[0].number} is bad: {stop[1]}",
                where=str(self._file),
                advice="Mend it and import again, which goes on from there; or collect bad lines with --bad-lines FILE",
            )

    def _send_line(self, line: Line) -> HeadstreamError | None:
        """Send the message of a line, if it has one and is not there yet; return why it cannot be sent."""
        message = line.message
        if message is None or message.topic is None:
            return None
        partition, message_id = self._locate(message, line.number)
        if line.number <= self._sent_until.get((message.topic, partition), 0):
            self._done.found += 1
            return None
        headers = message.headers
        if message.timestamp is not None and TIMESTAMP_HEADER not in headers:
            headers = headers.with_((TIMESTAMP_HEADER, int64(message.timestamp)))
        try:
            self._producers[message.topic].send(
                message.payload, key=message.key, headers=headers, id=message_id, partition=partition
            )
        except (InvalidInputError, DecodeError, PartitionNotFoundError) as error:  # refused before it was on its way
            return error
        self._done.sent += 1
        return None

    def _set_states(self, chunk: list[Line]) -> None:
        """Set the states of a chunk's messages that its lines do not call available, now that they are stored."""
        if all(line.message is None or line.message.state == MessageState.AVAILABLE for line in chunk):
            return
        offsets: dict[tuple[str, int, int], deque[int]] = {}
        for place, offset in self._look_through():
            offsets.setdefault(place, deque()).append(offset)
        wanted: dict[tuple[str, int, int], list[int]] = {}
        for line in chunk:
            message = line.message
            if message is None or message.topic is None:
                continue
            partition, message_id = self._locate(message, line.number)
            stored = offsets.get((message.topic, partition, message_id))
            if stored:
                offset = stored.popleft()
                if message.state != MessageState.AVAILABLE:
                    wanted.setdefault((message.topic, partition, int(message.state)), []).append(offset)
        for (topic, partition, state), found in wanted.items():
            self._log.set_state(topic, partition, found, state, reason="imported in this state", by="headstream import")

    def _locate(self, message: Message, number: int) -> tuple[int, int]:
        """Return the partition that a line's message goes to, and its id."""
        partition = message.partition
        if partition is None:
            partitions = self._partitions[message.topic or ""]
            partition = number % partitions + 1 if message.key is None else partition_of(message.key, partitions)
        return partition, message.id or self._make_id(number)

    def _make_id(self, number: int) -> int:
        """Return the id of a line's message: a UUID of version 8, made of the import and the line's number."""
        data = bytearray(xxhash.xxh3_128_digest(number.to_bytes(8, "little"), self._seed))
        data[6] = data[6] & 0x0F | 0x80
        data[8] = data[8] & 0x3F | 0x80
        return int.from_bytes(data, "little")

    def _put_away(self, line: Line, fault: HeadstreamError) -> None:
        if self._bad_file is not None:
            self._bad_file.write(line.raw if line.raw.endswith(b"\n") else line.raw + b"\n")
            self._done.bad += 1
            self._options.on_bad_line(f"line {line.number} is bad: {fault}")
