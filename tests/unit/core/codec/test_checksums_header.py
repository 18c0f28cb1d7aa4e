"""checksums.h and xxh3.h by themselves: constants computed anew, and each way on this machine."""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
import sysconfig
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
import xxhash

import headstream.core.codec
from tests.support.messages.batches import crc32c

HEADER = Path(headstream.core.codec.__file__).parent / "checksums.h"
POLYNOMIALS = {"hs_ieee": 0x104C11DB7, "hs_castagnoli": 0x11EDC6F41}
DISTANCES = (2048, 1536, 1024, 512, 384, 256, 128)

SOURCE = f"""
#include "{HEADER}"
#include "{HEADER.with_name("xxh3.h")}"
unsigned long long run_xxh3(const unsigned char *p, long long at, long long n) {{ return hs_xxh3(p, at, n); }}
int ways_agree(const unsigned char *p, long long at, long long n) {{
    uint64_t narrow[8] = {{1, 2, 3, 4, 5, 6, 7, 8}}, wide[8] = {{1, 2, 3, 4, 5, 6, 7, 8}};
#ifdef HS_XXH3_WIDE
    if (!__builtin_cpu_supports("avx2")) return 1;
    hs_xxh3_add(narrow, p + at, n);
    hs_xxh3_add_wide(wide, p + at, n);
#endif
    return !memcmp(narrow, wide, sizeof wide);
}}
int level(int wanted) {{ if (wanted >= 0) hs_crc_level = wanted; return hs_crc_level; }}
unsigned run_crc32(const unsigned char *p, long long at, long long n, unsigned v) {{ return hs_crc32(p, at, n, v); }}
unsigned run_crc32c(const unsigned char *p, long long at, long long n, unsigned v) {{ return hs_crc32c(p, at, n, v); }}
unsigned run_copy(unsigned char *to, long long at, const unsigned char *p, long long from, long long n) {{
    return hs_copy_crc32(to, at, p, from, n);
}}
"""


def reflect(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def power(exponent: int, polynomial: int) -> int:
    """Return x^exponent mod P."""
    rest = 1
    for _ in range(exponent):
        rest <<= 1
        if rest >> 32:
            rest ^= polynomial
    return rest


def quotient(polynomial: int) -> int:
    """Return floor(x^64 / P)."""
    result, rest = 0, 1 << 64
    for bit in range(64, 31, -1):
        if rest >> bit & 1:
            result |= 1 << (bit - 32)
            rest ^= polynomial << (bit - 32)
    return result


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_the_constants_are_the_powers_they_should_be(name: str) -> None:
    polynomial = POLYNOMIALS[name]
    body = HEADER.read_text().split(f"struct hs_polynomial {name} =")[1].split("};")[0]
    found = [int(text, 16) for text in re.findall(r"0x[0-9A-F]+", body)]
    expected = [reflect(polynomial & 0xFFFFFFFF, 32)]
    for distance in DISTANCES:
        expected += [reflect(power(exponent, polynomial), 32) << 1 for exponent in (distance + 32, distance - 32)]
    expected += [reflect(power(64, polynomial), 32) << 1, reflect(quotient(polynomial), 33), reflect(polynomial, 33)]
    assert found == expected


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ctypes.CDLL]:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("checksums")
    source, target = folder / "run.c", folder / "run.so"
    source.write_text(SOURCE)
    headers = f"-I{sysconfig.get_path('include')}"
    subprocess.run([compiler, headers, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", target, source], check=True)
    loaded = ctypes.CDLL(str(target))
    loaded.run_xxh3.restype = ctypes.c_uint64
    loaded.run_xxh3.argtypes = loaded.ways_agree.argtypes = [ctypes.c_char_p, ctypes.c_longlong, ctypes.c_longlong]
    for function in (loaded.run_crc32, loaded.run_crc32c, loaded.run_copy):
        function.restype = ctypes.c_uint32
    loaded.run_crc32.argtypes = loaded.run_crc32c.argtypes = [
        ctypes.c_char_p,
        ctypes.c_longlong,
        ctypes.c_longlong,
        ctypes.c_uint32,
    ]
    loaded.run_copy.argtypes = [ctypes.c_char_p, ctypes.c_longlong, ctypes.c_char_p, ctypes.c_longlong, ctypes.c_longlong]
    best = loaded.level(-1)
    yield loaded
    loaded.level(best)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_every_level_agrees_with_the_definition_at_every_length_and_place(library: ctypes.CDLL, level: int) -> None:
    best = library.level(-1)
    if level > best:
        pytest.skip(f"this machine has level {best}")
    library.level(level)
    data = random.Random(3).randbytes(3000)
    try:
        for size in (*range(600), 1023, 1024, 1025, 2047, 2048, 2500, 2990):
            at = size % 10
            piece = data[at : at + size]
            assert library.run_crc32(data, at, size, 0) == zlib.crc32(piece)
            assert library.run_crc32(data, at, size, 12345) == zlib.crc32(piece, 12345)
            target = ctypes.create_string_buffer(b"#" * (size + 20))
            assert library.run_copy(target, 7, data, at, size) == zlib.crc32(piece)
            assert target.raw[: size + 20] == b"#" * 7 + piece + b"#" * 13
            if size % 7 == 0 or size < 300:
                assert library.run_crc32c(data, at, size, 0) == crc32c(piece)
    finally:
        library.level(best)


def test_xxh3_is_that_of_the_package_xxhash_with_and_without_avx2(library: ctypes.CDLL) -> None:
    data = random.Random(5).randbytes(5000)
    for size in (*range(1200), 2047, 2048, 2049, 3072, 4990):
        at = size % 10
        assert library.run_xxh3(data, at, size) == xxhash.xxh3_64_intdigest(data[at : at + size]), size
        assert size <= 240 or library.ways_agree(data, at, size), size


def test_crc32c_of_pieces_is_that_of_the_whole(library: ctypes.CDLL) -> None:
    data = random.Random(4).randbytes(5000)
    whole = crc32c(data)
    for cut in range(0, 5000, 333):
        first = library.run_crc32c(data, 0, cut, 0)
        assert library.run_crc32c(data, cut, 5000 - cut, first) == whole
