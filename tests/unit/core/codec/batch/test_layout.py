"""The layouts of messages and index entries: those of the bytes that are written."""

from __future__ import annotations

from headstream.core.codec.batch import layout
from headstream.core.codec.batch.stored.stamp import stamp
from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.log.segments.layout import INDEX_ENTRY_BYTES, IndexEntry, encode_entry


def test_positions_are_the_begins_of_the_fields_and_the_end_of_the_last() -> None:
    assert layout.positions("<Q B 3x 16s I") == (0, 8, 12, 28, 32)


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
