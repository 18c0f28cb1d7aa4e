"""Importer: one run of an import.

    read a chunk of lines -> save the progress, with the end offsets of the partitions -> send -> wait for acknowledgements -> …

When an interrupted import continues, the log is searched after the saved end offsets for messages of the chunk that was in
flight. A line always produces the same message: if it has no id, its id is derived from the import's id and the line number, and
its partition is chosen by its key or the line number. States other than available are set after a chunk is stored.

After a crash of the process, the saved progress is exact. A power failure can lose messages, as the log's fsync policy allows.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import xxhash

from headstream.cli.importing.progress import digest_before, load_progress, progress_path, save_progress
from headstream.cli.importing.reading import Line, read_lines
from headstream.core.codec.batch.stored.stamp import check_sent
from headstream.core.codec.binary import encode_sent
from headstream.core.model.constructors import int64
from headstream.core.model.message import Message, MessageState
from headstream.core.model.reserved import TIMESTAMP_HEADER
from headstream.core.model.topology import Limits
from headstream.errors import DecodeError, HeadstreamError, InvalidInputError, NotFoundError, PartitionNotFoundError, StorageError

if TYPE_CHECKING:
    from headstream.client.client import Client
    from headstream.client.producer.producer import Producer

# Determines the options of the missing topics that an import creates, from the messages of the file.


@dataclass(slots=True)
class TopicNeeds:
    """The needs of a topic: the highest partition in a line (None if no line has a partition), and whether it must be `wide`."""

    highest: int | None = None
    is_wide: bool = False

    def count_partitions(self, first: int) -> int:
        """Return the number of partitions that the topic needs, at least 1; the first partition has the number `first`."""
        return 1 if self.highest is None else max(self.highest - first + 1, 1)


def plan_topics(lines: Iterable[Line]) -> dict[str, TopicNeeds]:
    """Return the needs of each topic, so that it accepts the messages of these lines; bad lines are ignored."""
    needs: dict[str, TopicNeeds] = {}
    for line in lines:
        message = line.message
        if message is None or message.topic is None:
            continue
        topic = needs.setdefault(message.topic, TopicNeeds())
        if message.partition is not None:
            topic.highest = max(topic.highest or 0, message.partition)
        if not topic.is_wide and not _fits(message, wide=False):
            topic.is_wide = _fits(message, wide=True)
    return needs


def _fits(message: Message, *, wide: bool) -> bool:
    """Return whether a log would accept a message, using the log's own check."""
    try:
        check_sent(encode_sent((message,)), wide)
    except HeadstreamError:
        return False
    return True


_CHUNK_LINES: Final = 5000
_CHUNK_BYTES: Final = 4 << 20
"""Maximum size of a chunk of lines in memory, bytes; after an interruption, the log is searched for the chunk's messages."""
_LINGER_MS: Final = 1000
"""Maximum time that a message waits for its batch to fill, milliseconds; the end of a chunk sends all batches."""
_READ_COUNT: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """The options of an import.

    Args:
        topic: Topic of lines without a topic.
        bad_lines: File for bad lines; None stops the import at the first bad line.
        partitions: Partition count of a created topic, unless a line has a higher partition.
        limits: Limits of a created topic; None chooses the limits that the messages require.
        on_progress: Called with the byte position after every chunk.
        on_bad_line: Called with the reason for every collected bad line.
    """

    topic: str | None = None
    bad_lines: Path | None = None
    partitions: int = 1
    limits: Limits | None = None
    on_progress: Callable[[int], None] = lambda _: None
    on_bad_line: Callable[[str], None] = lambda _: None


@dataclass(slots=True)
class Imported:
    """The result of a run.

    Args:
        lines: Lines of the file that all runs have processed.
        sent: Messages sent by this run.
        found: Messages of this run's lines that an earlier run had already sent.
    """

    lines: int = 0
    sent: int = 0
    found: int = 0
    bad: int = 0
    created: list[str] = field(default_factory=list)


class Importer:
    """One run of an import of JSON lines. The progress is saved in FILE.progress.

    Raises:
        InvalidInputError: the progress file is invalid, or the import began with another file or log.
    """

    def __init__(self, log: Client, file: Path, options: ImportOptions) -> None:
        self._log = log
        self._file = file
        self._options = options
        self._progress = load_progress(file)
        self._seed = xxhash.xxh3_64_intdigest(self._progress.import_id.encode())
        self._done = Imported(lines=self._progress.lines)
        self._producers: dict[str, Producer] = {}
        self._needs: dict[str, TopicNeeds] | None = None
        self._sent_until: dict[tuple[str, int], int] = {}
        self._bad_file: BinaryIO | None = None
        self._check_unchanged()

    def run(self) -> Imported:
        """Import from the saved position to the end of the file.

        Raises:
            InvalidInputError: a line is bad, and there is no file for bad lines. All lines before this line are imported.
        """
        with ExitStack() as stack:
            if self._options.bad_lines is not None:
                self._bad_file = stack.enter_context(self._open_bad_lines(self._options.bad_lines))
            in_doubt = self._progress.until > self._progress.lines
            for chunk in self._chunks():
                self._open_topics(chunk, stack)
                if in_doubt:
                    self._find_sent(chunk)
                else:  # outcome unknown: the saved progress still has the offsets to search from
                    self._save(until=chunk[-1].number)
                self._send(chunk)
                in_doubt = False
                self._sent_until.clear()
                self._options.on_progress(self._progress.byte_position)
            self._save(until=self._progress.lines)
        return self._done

    # -- progress -----------------------------------------------------------------------------------------------

    def _check_unchanged(self) -> None:
        progress = self._progress
        again = f"Move {progress_path(self._file).name} to another directory to import the file from the beginning"
        if progress.byte_position and digest_before(self._file, progress.byte_position) != progress.digest:
            raise InvalidInputError(
                "the part of the file that was already imported has changed", where=str(self._file), advice=again
            )
        if progress.log is not None and self._log.identity != progress.log:
            raise InvalidInputError("the import of this file began with another log", where=str(self._file), advice=again)

    def _find_sent(self, chunk: list[Line]) -> None:
        """For each partition, find the last line of the chunk in flight that the partition contains.

        A partition receives its lines in order, so it has also received all earlier lines, even if compaction or retention has
        since removed some of their messages.
        """
        present = Counter(sent for sent, _ in self._search_sent())
        for line in chunk:
            if line.message is not None and line.message.topic is not None:
                partition, message_id = self._locate(line.message, line.number)
                if present[line.message.topic, partition, message_id] > 0:
                    present[line.message.topic, partition, message_id] -= 1
                    self._sent_until[line.message.topic, partition] = line.number

    def _search_sent(self) -> Iterator[tuple[tuple[str, int, int], int]]:
        """Yield (topic, partition, message id) and the offset of each message after the saved end offsets."""
        for topic, ends in self._progress.ends.items():
            for number, offset in ends.items():
                partition = int(number)
                while found := self._log.poll(topic, partition, start=offset, count=_READ_COUNT, states=None):
                    yield from (((topic, partition, message.id), message.offset or 0) for message in found)
                    offset = (found[-1].offset or 0) + 1

    def _save(self, *, until: int) -> None:
        """Save the progress; call this when all sent lines have been acknowledged."""
        progress = self._progress
        progress.log = self._log.identity
        progress.until = until
        progress.digest = digest_before(self._file, progress.byte_position)
        progress.ends = {
            topic: {str(partition.number): partition.end_offset for partition in self._log.topic(topic).partitions}
            for topic in self._producers
        }
        progress.bad_lines = None
        if self._bad_file is not None and self._options.bad_lines is not None:
            self._bad_file.flush()
            progress.bad_lines = {"path": str(self._options.bad_lines.resolve()), "size_bytes": self._bad_file.tell()}
        save_progress(self._file, progress)

    # -- lines --------------------------------------------------------------------------------------------------

    def _read(self) -> Iterator[Line]:
        return read_lines(self._file, self._progress.byte_position, self._progress.lines + 1, self._options.topic)

    def _chunks(self) -> Iterator[list[Line]]:
        """Yield the remaining lines in chunks. If a chunk's outcome is unknown, the first chunk repeats its lines."""
        last = self._progress.until if self._progress.until > self._progress.lines else None
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
        """Open the file of bad lines and truncate it to the saved progress, because later lines are written again."""
        kept = self._progress.bad_lines
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
        """Create the missing topics of a chunk, and producers for its topics."""
        for name in dict.fromkeys(line.message.topic for line in chunk if line.message is not None):
            if name is None or name in self._producers:
                continue
            try:
                self._log.topic(name)
            except NotFoundError:
                if self._needs is None:
                    self._needs = plan_topics(self._read())
                needs = self._needs.get(name, TopicNeeds())
                limits = self._options.limits or (Limits.WIDE if needs.is_wide else Limits.IGGY)
                partitions = max(needs.count_partitions(self._log.first_partition), self._options.partitions)
                self._log.create_topic(name, partitions, limits=limits, if_not_exists=True)
                self._done.created.append(name)
            self._producers[name] = stack.enter_context(self._log.producer(name, linger_ms=_LINGER_MS))

    def _send(self, chunk: list[Line]) -> None:
        """Send a chunk's messages, then move the progress to the end of the chunk or to the line that stops the import."""
        stop: tuple[Line, HeadstreamError] | None = None
        for line in chunk:
            fault = line.fault or self._send_line(line)
            if fault is None:
                continue
            if self._bad_file is None:
                stop = line, fault
                break
            self._collect_bad_line(line, fault)
        for producer in self._producers.values():
            producer.flush()
        self._set_states(chunk)
        end = chunk[-1]
        progress = self._progress
        if stop is None:
            progress.byte_position, progress.lines = end.byte_position + len(end.raw), end.number
        else:
            progress.byte_position, progress.lines = stop[0].byte_position, stop[0].number - 1
        self._done.lines = progress.lines
        if stop is not None:
            self._save(until=progress.lines)
            raise InvalidInputError(
                f"line {stop[0].number} is bad: {stop[1]}",
                where=str(self._file),
                advice="Correct the line, or set --bad-lines FILE; then repeat the command, which continues at this line",
            )

    def _send_line(self, line: Line) -> HeadstreamError | None:
        """Send a line's message, unless the line is blank or its message is stored; return why it cannot be sent, or None."""
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
        except (InvalidInputError, DecodeError, PartitionNotFoundError) as error:  # rejected before it was sent
            return error
        self._done.sent += 1
        return None

    def _set_states(self, chunk: list[Line]) -> None:
        """Set the states of a chunk's stored messages, except the state available."""
        if all(line.message is None or line.message.state == MessageState.AVAILABLE for line in chunk):
            return
        offsets: dict[tuple[str, int, int], deque[int]] = {}
        for sent, offset in self._search_sent():
            offsets.setdefault(sent, deque()).append(offset)
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
        partition = message.partition
        if partition is None:
            producer = self._producers[message.topic or ""]
            numbers = producer.partitions
            partition = numbers[number % len(numbers)] if message.key is None else producer.partition_of(message.key)
        return partition, message.id or self._make_id(number)

    def _make_id(self, number: int) -> int:
        """Return the id of a line's message: a version 8 UUID made of the import's id and the line number."""
        data = bytearray(xxhash.xxh3_128_digest(number.to_bytes(8, "little"), self._seed))
        data[6] = data[6] & 0x0F | 0x80
        data[8] = data[8] & 0x3F | 0x80
        return int.from_bytes(data, "little")

    def _collect_bad_line(self, line: Line, fault: HeadstreamError) -> None:
        if self._bad_file is not None:
            self._bad_file.write(line.raw if line.raw.endswith(b"\n") else line.raw + b"\n")
            self._done.bad += 1
            self._options.on_bad_line(f"line {line.number} is bad: {fault}")
