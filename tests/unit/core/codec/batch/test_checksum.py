"""The plain checksums of the kernels: the published check values, zlib, and every length and split."""

from __future__ import annotations

import random
import zlib
from types import ModuleType

import pytest

from tests.support import kernels

CHECK = b"123456789"
scan = kernels.fixture("batch.stored.scan")


def crc32c_bit_by_bit(data: bytes, value: int = 0) -> int:
    value ^= 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def test_checksums_give_the_published_check_values(scan: ModuleType) -> None:
    assert scan.crc32(CHECK) == 0xCBF43926
    assert scan.crc32c(CHECK) == 0xE3069283
    assert scan.crc32c(bytes(32)) == 0x8A9136AA
    assert scan.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert scan.crc32c(bytes(range(32))) == 0x46DD794E


def test_checksums_agree_with_the_definition_at_every_length(scan: ModuleType) -> None:
    data = random.Random(1).randbytes(300)
    for size in range(301):
        assert scan.crc32(data[:size]) == zlib.crc32(data[:size])
        assert scan.crc32c(data[:size]) == crc32c_bit_by_bit(data[:size])


def test_checksums_of_long_data_agree_when_split_at_random(scan: ModuleType) -> None:
    random_ = random.Random(2)
    data = random_.randbytes(70_000)
    expected = crc32c_bit_by_bit(data)
    for _ in range(20):
        first, second = sorted((random_.randrange(len(data)), random_.randrange(len(data))))
        value, value_c = 0, 0
        for piece in (data[:first], data[first:second], data[second:]):
            value, value_c = scan.crc32(piece, value), scan.crc32c(piece, value_c)
        assert value == zlib.crc32(data)
        assert value_c == expected


def test_checksums_take_any_buffer_in_one_piece(scan: ModuleType) -> None:
    for data in (CHECK, bytearray(CHECK), memoryview(b"x" + CHECK)[1:], memoryview(CHECK).cast("b")):
        assert scan.crc32c(data) == 0xE3069283
    with pytest.raises(BufferError, match="not contiguous"):
        scan.crc32c(memoryview(b"0123456789")[::2])
