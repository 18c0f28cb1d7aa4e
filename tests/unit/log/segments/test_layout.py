"""The bytes of an index, and the names of files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headstream.log.segments import layout

ENTRY = layout.IndexEntry(4096, 1000, 20_000, 7, 1_690_000_000_000_000, 0xDEADBEEF)
ENTRY_HEX = "00100000e8030000102700000700000000a0abc90b010600efbeadde"


def test_encode_entry_has_the_documented_bytes() -> None:
    encoded = layout.encode_entry(ENTRY, 10_000)
    assert encoded[:28].hex() == ENTRY_HEX
    assert len(encoded) == layout.INDEX_ENTRY_BYTES


@given(
    st.builds(
        layout.IndexEntry,
        st.integers(0, 2**32 - 1),
        st.integers(1, 2**32 - 1),
        st.integers(2**40, 2**40 + 2**32 - 1),
        st.integers(1, 2**32 - 1),
        st.integers(0, 2**64 - 1),
        st.integers(0, 2**32 - 1),
    )
)
def test_decode_entry_gives_back_what_was_encoded(entry: layout.IndexEntry) -> None:
    assert layout.decode_entry(layout.encode_entry(entry, 2**40), 2**40) == entry


@pytest.mark.parametrize("bit", range(layout.INDEX_ENTRY_BYTES * 8))
def test_decode_entry_refuses_it_when_any_bit_is_flipped(bit: int) -> None:
    encoded = bytearray(layout.encode_entry(ENTRY, 10_000))
    encoded[bit // 8] ^= 1 << bit % 8
    assert layout.decode_entry(encoded, 10_000) is None


def test_decode_entry_refuses_an_entry_of_another_segment() -> None:
    assert layout.decode_entry(layout.encode_entry(ENTRY, 10_000), 10_001) is None


def test_decode_entry_refuses_zeros() -> None:
    assert layout.decode_entry(bytes(layout.INDEX_ENTRY_BYTES), 0) is None


def test_entry_ends_where_the_next_begins() -> None:
    assert (ENTRY.end_position, ENTRY.end_offset) == (5096, 20_007)


def test_decode_header_gives_back_what_was_encoded() -> None:
    header = layout.decode_header(layout.encode_header(2**40 + 3))
    assert header is not None
    assert (header.version, header.entry_size, header.base_offset) == (1, layout.INDEX_ENTRY_BYTES, 2**40 + 3)


@pytest.mark.parametrize("byte", range(32))
def test_decode_header_refuses_it_when_a_byte_is_changed(byte: int) -> None:
    encoded = bytearray(layout.encode_header(77))
    encoded[byte] ^= 0xFF
    assert layout.decode_header(bytes(encoded)) is None


def test_decode_header_refuses_it_when_it_is_cut() -> None:
    assert layout.decode_header(layout.encode_header(0)[:-1]) is None


def test_base_offsets_are_those_of_the_indexes_in_order() -> None:
    names = [f"{9:020d}.index", f"{0:020d}.index", f"{0:020d}.log", f"{5:020d}.log", "5.index", f"{7:020d}.index-new", "x"]
    assert layout.base_offsets(names) == [0, 9]


def test_paths_are_as_documented() -> None:
    assert layout.topic_directory("/d", 3, 4) == "/d/streams/3/4"
    assert layout.segment_path("/d/streams/3/4/1", 12, ".log") == "/d/streams/3/4/1/00000000000000000012.log"
