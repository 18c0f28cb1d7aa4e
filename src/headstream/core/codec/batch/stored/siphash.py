"""SipHash-2-4 with 128 bits: a keyed hash, resistant to chosen collisions."""

from __future__ import annotations

from headstream.core.codec.buffer import BytesLike

try:
    import cython
except ImportError:
    from headstream.core.codec import uncompiled as cython  # type: ignore[no-redef]

if not cython.compiled:
    from headstream.core.codec import uncompiled_primitives as c
else:
    from cython.cimports.headstream.core.codec import primitives as c

MASK64 = cython.declare(cython.ulonglong, 0xFFFF_FFFF_FFFF_FFFF)
SIP_0 = cython.declare(cython.ulonglong, 0x736F_6D65_7073_6575)
SIP_1 = cython.declare(cython.ulonglong, 0x646F_7261_6E64_6F6D ^ 0xEE)
SIP_2 = cython.declare(cython.ulonglong, 0x6C79_6765_6E65_7261)
SIP_3 = cython.declare(cython.ulonglong, 0x7465_6462_7974_6573)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
@cython.nogil
def _rotate(value: cython.ulonglong, bits: cython.int) -> cython.ulonglong:
    return ((value << bits) & MASK64) | (value >> (64 - bits))


def siphash128(
    p: cython.p_const_uchar,
    at: cython.longlong,
    size: cython.longlong,
    seed_low: cython.ulonglong,
    seed_high: cython.ulonglong,
    out: cython.p_uchar,
) -> cython.void:
    """Write the 128-bit SipHash-2-4 of `size` bytes."""
    v0: cython.ulonglong = seed_low ^ SIP_0
    v1: cython.ulonglong = seed_high ^ SIP_1
    v2: cython.ulonglong = seed_low ^ SIP_2
    v3: cython.ulonglong = seed_high ^ SIP_3
    word: cython.ulonglong
    words: cython.longlong = size // 8
    step: cython.longlong
    i: cython.longlong
    rounds: cython.longlong
    for step in range(words + 3):
        word = 0
        rounds = 2
        if step < words:
            word = c.load64(p, at + 8 * step)
        elif step == words:
            word = size & 0xFF
            word <<= 56
            for i in range(size - 8 * words):
                byte: cython.ulonglong = p[at + 8 * words + i]
                word |= byte << (8 * i)
        elif step == words + 1:
            v2 ^= 0xEE
            rounds = 4
        else:
            c.store64(out, 0, v0 ^ v1 ^ v2 ^ v3)
            v1 ^= 0xDD
            rounds = 4
        v3 ^= word
        for _ in range(rounds):
            v0 = (v0 + v1) & MASK64
            v1 = _rotate(v1, 13) ^ v0
            v0 = _rotate(v0, 32)
            v2 = (v2 + v3) & MASK64
            v3 = _rotate(v3, 16) ^ v2
            v0 = (v0 + v3) & MASK64
            v3 = _rotate(v3, 21) ^ v0
            v2 = (v2 + v1) & MASK64
            v1 = _rotate(v1, 17) ^ v2
            v2 = _rotate(v2, 32)
        v0 ^= word
    c.store64(out, 8, v0 ^ v1 ^ v2 ^ v3)


def siphash(data: BytesLike, seed: bytes) -> bytes:
    """Return the hash, 16 bytes; the seed has 16 bytes."""
    view = memoryview(data)
    p: cython.p_const_uchar = c.readable(view)
    seed_low: cython.ulonglong = int.from_bytes(seed[:8], "little")
    seed_high: cython.ulonglong = int.from_bytes(seed[8:16], "little")
    hashed = c.new_bytes(16)
    out: cython.p_uchar = c.writable(hashed)
    siphash128(p, 0, view.nbytes, seed_low, seed_high, out)
    return bytes(hashed)
