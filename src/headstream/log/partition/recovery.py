"""Recovery: repairs a partition after a crash, before the next writer appends.

A send is written in two steps, data and then index entry, and then acknowledged. A killed process can leave these states:

    data without its entry, complete or torn      truncated: never acknowledged
    a torn entry                                  truncated with its data: never acknowledged
    a new segment's .log without its .index       an empty index is created
    an index that is missing, or whose head is    rebuilt from the messages (deleted by an operator; a crash does not do this)
    damaged

A power failure can leave any part of the unsynced data: entries beyond the end of the data, entries for bytes that differ from
the written bytes, or entries after a hole. Recovery reads the newest segment's last sends, starting a minute before the end, and
moves all bytes after the last complete send to separate files. A damaged send before a complete send stays in place, and reads of
it raise an error. It is unknown which sends were synced, so keeping only the complete sends before the damage could drop
acknowledged sends. A later send is proven by its entry's check, its checksum and the offset in its messages.

Each truncated, moved or rebuilt part is logged as a warning of `headstream.log`. `headstream verify` lists the separate files.

Only the newest segment is read, because each segment is synced before the next segment starts; the duration does not depend on
the log's size. Damage in an earlier segment does not prevent opening: reads of the damaged segment raise CorruptLogError, all
other reads succeed. Unknown bytes are never deleted: if a .log whose index must be rebuilt contains bytes that are not messages,
these bytes are kept in a separate file. If the newest segment's .log is missing but its index exists, a new segment is started
after it: reads of the missing offsets raise an error, and a copy of the file can be restored later.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from headstream.core.codec.batch.stored.sends import check_sends
from headstream.errors import CorruptLogError, StorageError
from headstream.log.partition.index_rebuild import IndexRebuild, free_quarantine_path
from headstream.log.partition.missing_indexes import rebuild_missing_indexes
from headstream.log.segments.files import ReadFile
from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import (
    INDEX_ENTRY_BYTES,
    INDEX_HEADER_BYTES,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SYNC_FAILED_NAME,
    IndexEntry,
    base_offsets,
    decode_header,
    encode_header,
    segment_path,
    start_offsets,
)
from headstream.log.system.files import Files, WriteFile
from headstream.log.system.findings import report

MISSING_ADVICE: Final = (
    "Restore the directory from a copy, or create an empty directory with headstream verify DIR --repair --accept-loss. "
    "Version control and archives can omit empty directories"
)
_SCAN_BYTES: Final = 4 << 20
_UNSYNCED_US: Final = 60_000_000
_MAX_CHECKED: Final = 100_000
_NEVER: Final = "they contain no complete send, so no acknowledged message"


@dataclass(frozen=True, slots=True)
class _Checked:
    """The number of a segment's sends to keep, the last of these sends, and the numbers of the damaged sends."""

    count: int
    last: IndexEntry | None
    damaged: list[int]


@dataclass(frozen=True, slots=True)
class Tail:
    """The position of the next append; `base_offset` is None if there is no segment, `timestamp_us` 0 if there is no message."""

    base_offset: int | None
    end_offset: int
    byte_position: int
    entries: int
    timestamp_us: int


def recover(directory: str, files: Files, known: Tail | None = None) -> Tail:
    """Repair a partition and return its end; data up to `known`, the end that this process wrote, is not verified again."""
    names = files.list_names(directory)
    if names is None:
        raise CorruptLogError("a partition's directory is missing, with all its messages", where=directory, advice=MISSING_ADVICE)
    bases = rebuild_missing_indexes(directory, names, files)
    start = max(start_offsets(names), default=0)
    if not bases and not start:
        return Tail(None, 0, 0, 0, 0)
    if not bases:
        report(directory, f"the segments are missing: a new segment begins at offset {start}; earlier messages are lost")
        begin_segment(directory, start, files)
    newest = bases[-1] if bases else start
    if known is None:
        _rebuild_head(directory, newest, files)
    newest = _find_newest(directory, newest, files)
    tail = _repair_newest(directory, newest, files, known)
    if SYNC_FAILED_NAME in names:
        _write_again(directory, newest, files)
        files.remove(f"{directory}/{SYNC_FAILED_NAME}")
    return tail


def _find_newest(directory: str, newest: int, files: Files) -> int:
    """Return the first offset of the segment for appends: the newest segment, or a new segment after it."""
    path = segment_path(directory, newest, INDEX_SUFFIX)
    has_data = files.exists(segment_path(directory, newest, LOG_SUFFIX))
    index = files.open_write(path)
    try:
        if index.size_bytes() < INDEX_HEADER_BYTES:
            end, is_closed = newest, False
        else:
            reader = IndexReader(index, path, newest)
            if reader.seal is not None:
                raise CorruptLogError(
                    f"the files of the newest segment, from offset {reader.seal.until_offset}, are missing",
                    where=directory,
                    advice="Restore the files from a copy; otherwise headstream verify --repair creates a segment after the "
                    "committed offsets of consumers, so that no offset is reused",
                )
            end, is_closed = newest if reader.last is None else reader.last.end_offset, reader.is_compacted
    finally:
        index.close()
    if has_data and not is_closed:
        return newest
    what = "the next segment is missing" if is_closed else f"the messages from offset {newest} are missing"
    report(segment_path(directory, newest, LOG_SUFFIX), f"{what}: restore the file from a copy")
    begin_segment(directory, end, files)
    return end


def begin_segment(directory: str, base: int, files: Files) -> None:
    """Create missing files of an empty segment, the index last."""
    files.open_write(segment_path(directory, base, LOG_SUFFIX)).close()
    files.sync_directory(directory)
    index = files.open_write(segment_path(directory, base, INDEX_SUFFIX))
    try:
        if index.size_bytes() < INDEX_HEADER_BYTES:
            index.write_at(encode_header(base), 0)
            index.sync()
    finally:
        index.close()
    files.sync_directory(directory)


def _write_again(directory: str, base: int, files: Files) -> None:
    """Rewrite and sync a segment's bytes: after a failed sync, the kernel treats its cached pages as written."""
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


def _repair_newest(directory: str, base: int, files: Files, known: Tail | None) -> Tail:
    data = files.open_write(segment_path(directory, base, LOG_SUFFIX))
    index = files.open_write(segment_path(directory, base, INDEX_SUFFIX))
    try:
        if index.size_bytes() < INDEX_HEADER_BYTES:  # crashed between creating the file and writing its head
            index.write_at(encode_header(base), 0)
            _sync_head(index)
        reader = IndexReader(index, segment_path(directory, base, INDEX_SUFFIX), base)
        if known is not None and known.base_offset == base:
            checked = _find_last_whole(reader, data, known.entries)
        else:
            begin = _find_tail(reader)
            checked = _find_last_whole(reader, data, begin)
            if begin and checked.count == begin:  # none of the tail's sends is complete
                checked = _find_last_whole(reader, data, 0)
        count, last = checked.count, checked.last
        for number in checked.damaged:
            at = f"byte {INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES}"
            report(reader.path, f"the send of the index entry at {at} is damaged: reading it raises an error")
        index_end = INDEX_HEADER_BYTES + count * INDEX_ENTRY_BYTES
        end = 0 if last is None else last.end_position
        # A complete entry, valid or not, is not explained by a killed process, so the bytes are kept.
        if index.size_bytes() >= index_end + INDEX_ENTRY_BYTES and data.size_bytes() > end:
            _quarantine(data, end, f"{segment_path(directory, base, LOG_SUFFIX)}.rest-{end}", files)
            _quarantine(index, index_end, f"{segment_path(directory, base, INDEX_SUFFIX)}.rest-{index_end}", files)
        elif data.size_bytes() > end:
            report(
                segment_path(directory, base, LOG_SUFFIX),
                f"{data.size_bytes() - end} bytes from byte {end} were removed: {_NEVER}",
            )
        # Synced, so that truncated bytes cannot reappear after the bytes that replace them.
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
    earlier = [known_base for known_base in base_offsets(files.list_names(directory) or []) if known_base < base]
    return Tail(base, base, 0, 0, _last_timestamp(directory, earlier, files))


def note_failed_sync(directory: str, files: Files) -> None:
    """Create a marker, if possible, so that the next opening rewrites a partition's newest segment."""
    with suppress(StorageError):
        files.replace(f"{directory}/{SYNC_FAILED_NAME}", b"")


def _sync(file: WriteFile, directory: str, files: Files) -> None:
    try:
        file.sync()
    except StorageError:
        note_failed_sync(directory, files)
        raise


def _sync_head(index: WriteFile) -> None:
    """Sync the head before any entry, so that an invalid head is never caused by a crash."""
    try:
        index.sync()
    except StorageError:
        index.truncate(0)  # the next attempt writes the segment again, instead of trusting the cached bytes
        raise


def _find_tail(reader: IndexReader) -> int:
    """Return the number of the first entry that may have been unsynced when the power failed.

    The kernel writes cached data back within half a minute; entries of twice this time are read, up to a limit.
    """
    if reader.last is None:
        return 0
    recent = reader.find_timestamp(max(0, reader.last.timestamp_us - _UNSYNCED_US))
    number = max(recent, reader.count - _MAX_CHECKED)
    try:
        if number:
            reader.entry(number - 1)  # the trusted part ends with a valid entry
    except CorruptLogError:
        return 0
    return number


def _rebuild_head(directory: str, base: int, files: Files) -> None:
    """Rebuild an index with a damaged head if the messages prove the index; a crash cannot damage a head."""
    path = segment_path(directory, base, INDEX_SUFFIX)
    index = files.open_read(path)
    if index is None:
        return
    head = memoryview(bytearray(INDEX_HEADER_BYTES))
    got = index.read_into(head, 0)
    index.close()
    header = decode_header(head)
    if got == INDEX_HEADER_BYTES and (header is None or header.base_offset != base):
        for action in IndexRebuild(directory, base, None, files).run():
            report(action.path, action.what)


def _find_last_whole(reader: IndexReader, data: ReadFile, trusted: int) -> _Checked:
    """Return the sends to keep: all sends up to the last send after `trusted` that matches its entry."""
    count = kept = min(trusted, reader.count)
    last = reader.entry(count - 1) if count else None
    end = (0, reader.base_offset) if last is None else (last.end_position, last.end_offset)
    damaged: list[int] = []
    while count < reader.count:
        entry = reader.find_entry(count)
        if entry is None or entry.byte_position < end[0] or entry.first_offset < end[1]:
            damaged.append(count)
            count += 1
            continue
        until = max(count, reader.find_last_within(count, entry.first_offset + (1 << 62), entry.byte_position + _SCAN_BYTES))
        size_bytes = reader.entry(until).end_position - entry.byte_position
        chunk = memoryview(bytearray(size_bytes))
        chunk = chunk[: data.read_into(chunk, entry.byte_position)]
        whole = check_sends(chunk, reader.rows(count, until + 1 - count), reader.base_offset)
        count += whole
        if whole:
            kept = count
            last = reader.entry(kept - 1)
            end = last.end_position, last.end_offset
        if whole == 0:
            damaged.append(count)
            count += 1
    return _Checked(kept, last, [number for number in damaged if number < kept])


def _last_timestamp(directory: str, bases: list[int], files: Files) -> int:
    """Return the time of the newest message in earlier segments, because times must not decrease across segments."""
    for base in reversed(bases):
        path = segment_path(directory, base, INDEX_SUFFIX)
        file = files.open_read(path)
        if file is not None:
            try:
                last = IndexReader(file, path, base).last
            except CorruptLogError:
                continue  # reading an earlier segment reports its damage
            finally:
                file.close()
            if last is not None:
                return last.timestamp_us
    return 0


def _quarantine(data: ReadFile, position: int, path: str, files: Files) -> None:
    rest = memoryview(bytearray(data.size_bytes() - position))
    data.read_into(rest, position)
    target = free_quarantine_path(path, files) if files.exists(path) else path
    files.replace(target, bytes(rest))
    report(target, f"{len(rest)} bytes from byte {position} are not complete sends: they were moved to this file")
