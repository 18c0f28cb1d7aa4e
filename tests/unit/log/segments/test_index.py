"""IndexReader: the committed entries, and how they are found."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.errors import CorruptLogError, LogVersionError
from headstream.log.segments import index
from headstream.log.segments.index import IndexReader
from headstream.log.segments.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, IndexEntry, encode_entry, encode_header
from headstream.log.system.files import MemoryFile, MemoryFiles

BASE = 100


def index_file(*entries: IndexEntry, header: bytes = encode_header(BASE)) -> MemoryFile:
    file = MemoryFiles().open_write("index")
    file.write_at(header, 0)
    for number, entry in enumerate(entries):
        file.write_at(encode_entry(entry, BASE), INDEX_HEADER_BYTES + number * INDEX_ENTRY_BYTES)
    return file


def entries(counts: list[int], times: list[int] | None = None) -> list[IndexEntry]:
    made, position, offset = [], 0, BASE
    for number, count in enumerate(counts):
        made.append(IndexEntry(position, count * 50, offset, count, (times or counts)[number], 0))
        position, offset = position + count * 50, offset + count
    return made


def test_index_is_empty_when_its_file_has_no_head_yet() -> None:
    reader = IndexReader(MemoryFiles().open_write("index"), "index", BASE)
    assert (reader.count, reader.last) == (0, None)


def test_refresh_takes_in_what_was_appended() -> None:
    known = entries([3, 4])
    file = index_file(known[0])
    reader = IndexReader(file, "index", BASE)
    assert (reader.count, reader.last) == (1, known[0])
    file.write_at(encode_entry(known[1], BASE), INDEX_HEADER_BYTES + INDEX_ENTRY_BYTES)
    assert reader.count == 1
    reader.refresh()
    assert (reader.count, reader.last) == (2, known[1])


@pytest.mark.parametrize("kept", range(INDEX_ENTRY_BYTES))
def test_refresh_stops_before_an_entry_that_is_torn(kept: int) -> None:
    known = entries([3, 4])
    file = index_file(*known)
    file.truncate(INDEX_HEADER_BYTES + INDEX_ENTRY_BYTES + kept)
    assert IndexReader(file, "index", BASE).last == known[0]
    file.write_at(bytes(INDEX_ENTRY_BYTES - kept), INDEX_HEADER_BYTES + INDEX_ENTRY_BYTES + kept)
    assert IndexReader(file, "index", BASE).last == known[0]


def test_entry_names_the_file_and_byte_when_it_is_damaged() -> None:
    file = index_file(*entries([1, 2, 3]))
    file.write_at(b"\xff", INDEX_HEADER_BYTES + INDEX_ENTRY_BYTES)
    reader = IndexReader(file, "/log/x.index", BASE)
    assert reader.count == 3
    with pytest.raises(CorruptLogError, match=r"entry 1 .*\(/log/x\.index, byte 64\)"):
        reader.entry(1)


@pytest.mark.parametrize("header", [bytes(32), b"x" * 32, encode_header(BASE + 1)])
def test_index_refuses_a_head_that_is_not_its_own(header: bytes) -> None:
    with pytest.raises(CorruptLogError, match="header of an index file is damaged"):
        IndexReader(index_file(header=header), "index", BASE)


def test_index_refuses_a_newer_version(monkeypatch: pytest.MonkeyPatch) -> None:
    header = encode_header(BASE, 7)
    monkeypatch.setattr(index, "INDEX_VERSION", 1)
    with pytest.raises(LogVersionError, match="index version 3"):
        IndexReader(index_file(header=header), "index", BASE)


@settings(max_examples=100)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=30), st.data())
def test_find_agrees_with_looking_at_every_entry(counts: list[int], data: st.DataObject) -> None:
    times = sorted(data.draw(st.lists(st.integers(0, 20), min_size=len(counts), max_size=len(counts))))
    known = entries(counts, times)
    reader = IndexReader(index_file(*known), "index", BASE)
    offset = data.draw(st.integers(BASE, known[-1].end_offset - 1))
    assert reader.find_offset(offset) == next(n for n, entry in enumerate(known) if entry.end_offset > offset)
    time = data.draw(st.integers(0, 21))
    assert reader.find_timestamp(time) == next((n for n, e in enumerate(known) if e.timestamp_us >= time), len(known))
    start, until = data.draw(st.integers(0, len(known) - 1)), data.draw(st.integers(BASE, known[-1].end_offset + 1))
    position = data.draw(st.integers(0, known[-1].end_position + 1))
    within = [n for n, e in enumerate(known) if n >= start and e.end_offset <= until and e.end_position <= position]
    assert reader.find_last_within(start, until, position) == max(within, default=start - 1)
