"""Broken bytes: every truncation and every changed byte of a vector, and what decoding one comes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from headstream.errors import DecodeError


def truncations(data: bytes) -> Iterator[bytes]:
    """Return the data cut at every place."""
    return (data[:size] for size in range(len(data)))


def breakages(data: bytes, flips: tuple[int, ...] = (0x01, 0x10, 0x80, 0xFF)) -> Iterator[bytes]:
    """Return the data cut at every place, and with every byte changed in several ways."""
    yield from truncations(data)
    for at in range(len(data)):
        for flip in flips:
            yield data[:at] + bytes([data[at] ^ flip]) + data[at + 1 :]


def refusal(decode: Callable[[bytes], Any], data: bytes) -> DecodeError | None:
    """Return the DecodeError of decoding, which has a reason and a place within the data, or None where it gives a value."""
    try:
        decode(data)
    except DecodeError as error:
        if not error.what or not 0 <= error.at <= len(data):
            raise AssertionError(f"a refusal without reason or place: {error!r}") from error
        return error
    return None
