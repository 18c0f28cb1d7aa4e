"""The layouts of messages and index entries: the same numbers everywhere, and those of the bytes that are written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headstream.core.codec.batch import layout
from headstream.core.codec.batch.stored.stamp import stamp
from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.log.segments.layout import INDEX_ENTRY_BYTES, IndexEntry, encode_entry


def test_numbers_of_both_files_are_the_same() -> None:
    text = Path(layout.__file__).with_suffix(".pxd").read_text()
    compiled = {name: int(number) for name, number in re.findall(r"^    ([A-Z_]+) = (\d+)$", text, re.MULTILINE)}
    assert compiled == {name: value for name, value in vars(layout).items() if name.isupper()}


def test_check_fails_when_a_field_does_not_begin_where_the_one_before_it_ends() -> None:
    with pytest.raises(AssertionError, match="the fields Q B Q end at"):
        layout._check("Q B Q", 8, 10, 18)


def test_layout_is_that_of_the_bytes_that_are_written() -> None:
    sent = encode_sent([Message(payload=b"", id=0x0102)])
    assert len(sent) == layout.SENT_OVERHEAD
    stored = bytes(stamp(sent, base_offset=7, timestamp_us=9, seed=bytes(16), wide=True).data)
    assert len(stored) == layout.OVERHEAD
    assert stored[layout.STATE] == 1
    assert stored[layout.TIMESTAMP : layout.ID] == (9).to_bytes(8, "little")
    assert stored[layout.ID : layout.CHECKSUM] == (0x0102).to_bytes(16, "little")
    entry = encode_entry(IndexEntry(1, 2, 103, 4, 5, 6), 100)
    assert len(entry) == INDEX_ENTRY_BYTES == layout.ENTRY_BYTES
    places = layout.ENTRY_SIZE, layout.ENTRY_OFFSET, layout.ENTRY_COUNT, layout.ENTRY_TIMESTAMP, layout.ENTRY_CHECKSUM
    assert [int.from_bytes(entry[at : at + 4], "little") for at in places] == [2, 3, 4, 5, 6]
