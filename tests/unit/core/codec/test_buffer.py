"""Reader and Writer: what one pushes the other pulls, and nothing is pulled that is not there."""

from __future__ import annotations

import struct

import pytest

from headstream.core.codec.buffer import Reader, Writer
from headstream.errors import DecodeError, InvalidInputError


def written() -> bytes:
    writer = Writer()
    writer.push_u8(200)
    writer.push_u32(4_000_000_000)
    writer.push_u64((1 << 64) - 1)
    writer.push_f32(1.5)
    writer.push_bytes(b"raw")
    writer.push_text("né")
    writer.push_text8("short")
    writer.push_text32("日本")
    return writer.to_bytes()


def test_reader_pulls_what_writer_pushed() -> None:
    reader = Reader(written())
    assert reader.pull_u8("a") == 200
    assert reader.pull_u32("c") == 4_000_000_000
    assert reader.pull_u64("d") == (1 << 64) - 1
    assert reader.pull_f32("f") == 1.5
    assert reader.pull_bytes(3, "h") == b"raw"
    assert reader.pull_text(3, "i") == "né"
    assert reader.pull_text8("j") == "short"
    assert reader.pull_text32("k") == "日本"
    reader.pull_end("the fields")


def test_writer_spells_numbers_little_endian() -> None:
    assert written()[:13] == struct.pack("<BIQ", 200, 4_000_000_000, (1 << 64) - 1)
    assert len(Writer()) == 0


@pytest.mark.parametrize(("pull", "size"), [("u8", 1), ("u32", 4), ("u64", 8), ("f32", 4)])
def test_reader_says_what_is_cut_short_and_stays_where_it_is(pull: str, size: int) -> None:
    reader = Reader(b"!!" + bytes(size - 1), 2)
    with pytest.raises(DecodeError) as caught:
        getattr(reader, f"pull_{pull}")("the count")
    error = caught.value
    assert (error.what, error.at, error.need, error.have) == ("the count is cut short", 2, size, size - 1)
    assert reader.at == 2


def test_reader_believes_no_length_beyond_its_end() -> None:
    data = struct.pack("<I", 0xFFFFFFFF) + b"text"
    with pytest.raises(DecodeError, match="a name is cut short at byte 4: 4294967295 bytes needed, 4 available"):
        Reader(data).pull_text32("a name")
    with pytest.raises(DecodeError, match="the length of a name is cut short"):
        Reader(b"").pull_text8("a name")
    with pytest.raises(DecodeError):
        Reader(b"abcdef", 0, 3).pull_bytes(4, "a piece")


def test_reader_says_where_a_text_stops_being_utf8() -> None:
    with pytest.raises(DecodeError, match="a name is not UTF-8 at byte 5"):
        Reader(b"\x05ab\xc3\xa9\xff..").pull_text8("a name")


def test_reader_refuses_bytes_that_are_left_over() -> None:
    with pytest.raises(DecodeError, match="2 unexpected bytes after the command at byte 1"):
        Reader(b"abc", 1).pull_end("the command")


def test_reader_pulls_views_without_copying() -> None:
    data = bytearray(b"abcdef")
    view = Reader(data, 1).pull_view(3, "a piece")
    data[2] = ord("X")
    assert bytes(view) == b"bXd"


def test_reader_takes_an_empty_buffer_and_refuses_a_range_outside_it() -> None:
    assert Reader(memoryview(b"")).remaining == 0
    for at, end in ((5, None), (0, 5), (3, 2), (-1, None)):
        with pytest.raises(DecodeError, match="outside the data"):
            Reader(b"abcd", at, end)


def test_writer_refuses_what_does_not_fit_and_keeps_what_was_there() -> None:
    writer = Writer()
    writer.push_u8(1)
    with pytest.raises(InvalidInputError, match="256 is not an unsigned 8-bit number"):
        writer.push_u8(256)
    with pytest.raises(InvalidInputError, match="-1 is not"):
        writer.push_u64(-1)
    with pytest.raises(InvalidInputError, match="at most 255 bytes are allowed, not 256"):
        writer.push_text8("x" * 256)
    with pytest.raises(InvalidInputError, match="UTF-8 cannot encode"):
        writer.push_text32("a\ud800")
    with pytest.raises(InvalidInputError, match="too large"):
        writer.push_f32(1e300)
    assert writer.to_bytes() == b"\x01"
