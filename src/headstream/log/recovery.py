"""What a crash can leave in a partition, and how the next writer repairs it before it appends.

A send is written in two steps, data and then index entry, and is acknowledged after both. A process that dies
leaves one of these behind, and this is what becomes of it:

    data without its entry, whole or torn        cut off: it was never acknowledged
    a torn entry                                  cut off, with its data: never acknowledged either
    a new segment's .log without its .index       an empty index is made
    an index that is missing, or whose head is    built again from the messages (a person deleted it; a crash does not)
    damaged

A power cut can leave, of what was not synced, any part: entries that point behind the end of the data, or at bytes that
are not what was written, or that follow a hole. The newest segment's last sends are read, those of a minute before the
end, and everything from the first one that is not whole is set aside: moved out of the segment, into files whose names
say so.

Only the newest segment is looked into, since a segment is synced before the next one begins; how long this takes does
not depend on how much is stored. Damage in an earlier one does not keep a log from opening: reads of it raise
CorruptLogError, all others go on. What cannot be explained is an error, never deleted:
a .log whose index must be built again but which holds something that is no message keeps that rest, under a name that
says so.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from headstream.codec.batch.results import Scan
from headstream.codec.batch.scan import find_timestamp, scan, take
from headstream.errors import CorruptLogError, StorageError
from headstream.log.files import Files, WriteFile
from headstream.log.index_rebuild import IndexRebuild, free_aside_name
from headstream.segments.files import ReadFile
from headstream.segments.index import IndexReader
from headstream.segments.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SYNC_FAILED_NAME,
    IndexEntry,
    base_offsets,
    decode_header,
    encode_entry,
    encode_header,
    segment_path,
)

__all__ = ["SYNC_FAILED_NAME", "Tail", "note_failed_sync", "recover"]

_SCAN_BYTES: Final = 4 << 20
_UNSYNCED_US: Final = 60_000_000
_MAX_CHECKED: Final = 100_000
_LOG_NAME: Final = re.compile(r"(\d{20})\.log")


@dataclass(frozen=True, slots=True)
class Tail:
    """Where the next append goes.

    Args:
        base_offset: The newest segment's first offset; None where the partition has no segment yet.
        end_offset: What the next message gets.
        byte_position: The committed bytes of the newest segment.
        entries: The entries of its index.
        timestamp_us: The time of the newest message, 0 where there is none.
    """

    base_offset: int | None
    end_offset: int
    byte_position: int
    entries: int
    timestamp_us: int


def recover(directory: str, files: Files, known: Tail | None = None) -> Tail:
    """Repair a partition and return where its next append goes.

    Args:
        directory: The partition's directory; the caller holds the log's lock.
        files: Where it is.
        known: What the caller itself has written: not looked at again.

    Raises:
        CorruptLogError: files contradict each other in a way that no crash explains.
        StorageError: the system refused an operation.
    """
    names = files.list_names(directory)
    if names is None:
        raise CorruptLogError(
            "a partition's directory is missing", where=directory, advice="Restore it from a copy, or delete the topic"
        )
    logs = sorted(int(match[1]) for name in names if (match := _LOG_NAME.fullmatch(name)))
    indexed = base_offsets(names)
    if indexed and (not logs or indexed[-1] > logs[-1]):
        raise _missing_data(directory, indexed[-1])
    if not logs:
        return Tail(None, 0, 0, 0, 0)
    for number, base in enumerate(logs[:-1]):
        if base not in indexed:
            IndexRebuild(directory, base, logs[number + 1], files).run()  # unproven, reads say so
    if logs[-1] not in indexed:
        _rebuild(directory, logs[-1], files)
    elif known is None:
        _mend_head(directory, logs[-1], files)
    tail = _repair_newest(directory, logs, files, known)
    if SYNC_FAILED_NAME in names:
        _write_again(directory, logs[-1], files)
        files.remove(f"{directory}/{SYNC_FAILED_NAME}")
    return tail


def _missing_data(directory: str, base: int) -> CorruptLogError:
    return CorruptLogError(
        "a segment's index is there, its messages are not",
        where=segment_path(directory, base, LOG_SUFFIX),
        advice="Restore the file from a copy; to go on without those messages, move the index away",
    )


def _write_again(directory: str, base: int, files: Files) -> None:
    """Write a segment's bytes over themselves and sync them: after a failed sync, a system takes its copy in memory for
    written, and would never write it."""
    for suffix in (LOG_SUFFIX, INDEX_SUFFIX):
        file = files.open_write(segment_path(directory, base, suffix))
        try:
            for position in range(0, file.size_bytes(), _SCAN_BYTES):
                chunk = memoryview(bytearray(min(_SCAN_BYTES, file.size_bytes() - position)))
                file.read_into(chunk, position)
                file.write_at(chunk, position)
            file.sync()
        finally:
            file.close()
    files.sync_directory(directory)


def _repair_newest(directory: str, logs: list[int], files: Files, known: Tail | None) -> Tail:
    base = logs[-1]
    data = files.open_write(segment_path(directory, base, LOG_SUFFIX))
    index = files.open_write(segment_path(directory, base, INDEX_SUFFIX))
    try:
        if index.size_bytes() < INDEX_HEADER_BYTES:  # died between making the file and writing its head
            index.write_at(encode_header(base), 0)
            _sync_head(index)
        reader = IndexReader(index, segment_path(directory, base, INDEX_SUFFIX), base)
        if known is not None and known.base_offset == base:
            count, last = _count_whole(reader, data, known.entries)
        else:
            begin = _find_tail(reader)
            count, last = _count_whole(reader, data, begin)
            if begin and count == begin:  # not even the tail's first send is whole
                count, last = _count_whole(reader, data, 0)
        index_end = INDEX_HEADER_BYTES + count * INDEX_ENTRY_BYTES
        end = 0 if last is None else last.end_position
        # A whole entry, valid or not: more than a killed process leaves, so the bytes are kept.
        if index.size_bytes() >= index_end + INDEX_ENTRY_BYTES and data.size_bytes() > end:
            _set_aside(data, end, f"{segment_path(directory, base, LOG_SUFFIX)}.rest-{end}", files)
            _set_aside(index, index_end, f"{segment_path(directory, base, INDEX_SUFFIX)}.rest-{index_end}", files)
        # Synced, so that nothing that was cut off can turn up again behind what comes to lie in its place.
        if index.size_bytes() > index_end:
            index.truncate(index_end)
            _sync(index, directory, files)
        if data.size_bytes() > end:
            data.truncate(end)
            _sync(data, directory, files)
    finally:
        data.close()
        index.close()
    if last is not None:
        return Tail(base, last.end_offset, last.end_position, count, last.timestamp_us)
    return Tail(base, base, 0, 0, _last_timestamp(directory, logs[:-1], files))


def note_failed_sync(directory: str, files: Files) -> None:
    """Leave word, where that can be written, that a partition's newest segment must be written again."""
    with suppress(StorageError):
        files.replace(f"{directory}/{SYNC_FAILED_NAME}", b"")


def _sync(file: WriteFile, directory: str, files: Files) -> None:
    try:
        file.sync()
    except StorageError:
        note_failed_sync(directory, files)
        raise


def _sync_head(index: WriteFile) -> None:
    """Sync the head before any entry: one that is not valid is not taken for a crash's work."""
    try:
        index.sync()
    except StorageError:
        index.truncate(0)  # the next attempt writes it again, instead of taking what it sees for what is on the disk
        raise


def _find_tail(reader: IndexReader) -> int:
    """Return the number of the first entry that may not have been on the disk when the power went.

    A system writes what it holds back within half a minute, whatever the policy; twice that is looked at, unless that
    is a great many sends.
    """
    if reader.last is None:
        return 0
    recent = reader.find_timestamp(max(0, reader.last.timestamp_us - _UNSYNCED_US))
    number = max(recent, reader.count - _MAX_CHECKED)
    try:
        if number:
            reader.entry(number - 1)  # what is trusted ends with a valid entry
    except CorruptLogError:
        return 0
    return number


def _mend_head(directory: str, base: int, files: Files) -> None:
    """Build an index with a damaged head again where the messages prove it: a crash does not damage a head."""
    path = segment_path(directory, base, INDEX_SUFFIX)
    index = files.open_read(path)
    if index is None:
        return
    head = memoryview(bytearray(INDEX_HEADER_BYTES))
    got = index.read_into(head, 0)
    index.close()
    header = decode_header(head)
    if got == INDEX_HEADER_BYTES and (header is None or header.base_offset != base):
        IndexRebuild(directory, base, None, files).run()


def _count_whole(reader: IndexReader, data: ReadFile, trusted: int) -> tuple[int, IndexEntry | None]:
    """Return how many sends, from the first on, are what the index says, and the last of them."""
    count = min(trusted, reader.count)
    last = reader.entry(count - 1) if count else None
    chunk, begin = memoryview(b""), 0
    while count < reader.count:
        try:
            entry = reader.entry(count)
        except CorruptLogError:
            break
        if last is not None and (entry.byte_position, entry.first_offset) != (last.end_position, last.end_offset):
            break
        if entry.end_position > begin + len(chunk):
            begin = entry.byte_position
            chunk = memoryview(bytearray(max(entry.size_bytes, _SCAN_BYTES)))
            chunk = chunk[: data.read_into(chunk, begin)]
        if not _is_whole(chunk[entry.byte_position - begin : entry.end_position - begin], entry):
            break
        last, count = entry, count + 1
    return count, last


def _is_whole(stored: memoryview, entry: IndexEntry) -> bool:
    if len(stored) < entry.size_bytes:
        return False
    found = scan(stored)
    return (found.end, found.count, found.crc32c) == (entry.size_bytes, entry.messages_count, entry.crc32c)


def _last_timestamp(directory: str, bases: list[int], files: Files) -> int:
    """Return the time of the newest message of earlier segments: times do not decrease across a roll either."""
    for base in reversed(bases):
        path = segment_path(directory, base, INDEX_SUFFIX)
        file = files.open_read(path)
        if file is not None:
            try:
                last = IndexReader(file, path, base).last
            except CorruptLogError:
                continue  # an earlier segment's damage is its readers' business
            finally:
                file.close()
            if last is not None:
                return last.timestamp_us
    return 0


# -- building an index again -------------------------------------------------------------------------------


def _rebuild(directory: str, base: int, files: Files) -> None:
    """Build the index of the newest segment from its messages.

    It is made under another name and then renamed, since a segment exists from the moment its index does.
    """
    path = segment_path(directory, base, LOG_SUFFIX)
    data = files.open_read(path)
    if data is None:
        raise _missing_data(directory, base)
    temporary = segment_path(directory, base, ".index-new")
    index = files.open_write(temporary)
    try:
        index.truncate(0)
        index.write_at(encode_header(base), 0)
        end = _write_entries(data, index, base, path)
        if data.size_bytes() > end:
            _set_aside(data, end, f"{path}.rest-{end}", files)
        index.sync()  # a name in place of nothing must not come to be before what it names
    finally:
        data.close()
        index.close()
    files.rename(temporary, segment_path(directory, base, INDEX_SUFFIX))
    files.sync_directory(directory)


def _write_entries(data: ReadFile, index: WriteFile, base: int, path: str) -> int:
    """Write an entry for every run of messages of one time; return the byte after the last whole message."""
    size_bytes, position, offset, entries = data.size_bytes(), 0, base, 0
    span = _SCAN_BYTES
    while position < size_bytes:
        chunk = memoryview(bytearray(min(span, size_bytes - position)))
        data.read_into(chunk, position)
        whole = scan(chunk).end
        if whole == 0:
            if len(chunk) == size_bytes - position:
                break
            span *= 2
            continue
        at = 0
        while at < whole:
            run = _first_run(chunk[at:whole])
            if run.first_offset != offset or run.last_offset != offset + run.count - 1:
                raise CorruptLogError(
                    f"offsets {run.first_offset} to {run.last_offset} stand where {offset} and the next {run.count - 1} should, "
                    "and the segment's index is missing",
                    where=f"{path}, byte {position + at}",
                    advice="Restore the segment's files from a copy",
                )
            entry = IndexEntry(position + at, run.end, offset, run.count, run.first_timestamp_us, run.crc32c)
            index.write_at(encode_entry(entry, base), INDEX_HEADER_BYTES + entries * INDEX_ENTRY_BYTES)
            entries, offset, at = entries + 1, entry.end_offset, at + run.end
        position += whole
        span = _SCAN_BYTES
    return position


def _first_run(stored: memoryview) -> Scan:
    """Return what the first messages of the same time are."""
    first = scan(stored[: take(stored, 0, 1, len(stored))[0]])
    return scan(stored[: find_timestamp(stored, first.first_timestamp_us + 1)])


def _set_aside(data: ReadFile, position: int, path: str, files: Files) -> None:
    rest = memoryview(bytearray(data.size_bytes() - position))
    data.read_into(rest, position)
    files.replace(free_aside_name(path, files) if files.exists(path) else path, bytes(rest))
