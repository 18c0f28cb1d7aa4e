"""Unit tests of headstream.server.kafka.handlers.compression."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.errors import DecodeError, LimitError
from headstream.server.kafka.handlers.compression import bound_decompressed, decompress
from tests.unit.server.kafka.handlers.test_record_batches import _packed


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_decompress_stops_at_the_limit_when_much_comes_of_little(codec: int) -> None:
    import gzip

    import cramjam
    import lz4.frame
    import zstandard

    plain = bytes(50_000_000)
    made: Any = {
        1: lambda: gzip.compress(plain, 1),
        2: lambda: bytes(cramjam.snappy.compress_raw(plain)),
        3: lambda: lz4.frame.compress(plain),
        4: lambda: zstandard.compress(plain),
    }
    spelled: bytes = made[codec]()
    with pytest.raises(LimitError):
        decompress(codec, memoryview(spelled), 1_000_000)
    cut = memoryview(spelled[: len(spelled) // 2])
    if codec == 4:  # its library gives what is there; the records then are fewer than their batch says
        assert len(decompress(codec, cut, 100_000_000)) < 50_000_000
    else:
        with pytest.raises(DecodeError):
            decompress(codec, cut, 100_000_000)
    assert len(decompress(codec, memoryview(spelled), 50_000_000)) == 50_000_000


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
@pytest.mark.parametrize("size", [0, 1, 1000, 3_000_000])
def test_bound_decompressed_is_never_less_than_what_comes(codec: int, size: int) -> None:
    packed = memoryview(_packed(codec, bytes(size)))
    bound = bound_decompressed(codec, packed, 1 << 26)
    assert size <= bound <= 1 << 26
    assert len(decompress(codec, packed, bound)) == size
    if codec in (1, 2):
        assert bound == size


def test_bound_decompressed_is_what_frames_say_when_they_do() -> None:
    import lz4.frame
    import zstandard

    plain = bytes(300_000)
    block = _packed(2, plain[:100_000])
    xerial = b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + 3 * (len(block).to_bytes(4, "big") + block)
    for codec, packed in ((2, xerial), (3, lz4.frame.compress(plain)), (4, zstandard.compress(plain))):
        assert bound_decompressed(codec, memoryview(packed), 1 << 26) == 300_000
    assert bound_decompressed(4, memoryview(zstandard.compress(plain)), 1000) == 1000
    assert bound_decompressed(0, memoryview(plain), 1 << 26) == 0


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_decompress_refuses_bytes_when_they_are_of_no_codec(codec: int) -> None:
    for garbage in (b"", b"\0", b"\xff" * 20, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1\x7f\xff\xff\xff"):
        try:
            assert len(decompress(codec, memoryview(garbage), 1000)) <= 1000
        except (DecodeError, LimitError):
            continue
