"""Summarizes the headers of messages, chunk by chunk. pruning.py uses the summaries to skip segments.

A Bloom filter initially has its maximum size, and is folded in half while few of its bits are set: a value's bits modulo half the
size are its bits in the folded filter. Neither values nor hashes are stored, so memory is bounded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from headstream.core.codec.batch.stored.summaries import MAX_LISTED, HeaderNames, HeaderValues, summarize_headers
from headstream.core.codec.buffer import BytesLike
from headstream.core.filters.value_summary import Bloom, Number, Scalar, ValueSummary

MAX_TEXT_BYTES: Final = 256
"""Maximum size of stored strings: bounds are truncated to this size, and a header with a longer string has no list of values."""

_MIN_BLOOM_BYTES: Final = 128
_MAX_BLOOM_BYTES: Final = 1 << 20
"""Maximum bytes per header: sufficient for 870,000 distinct values with 1 % false positives; more values increase this share."""
_BITS_OF_A_VALUE: Final = 10
"""Bits per value for 1 % false positives, if _HASHES bits are set per value."""
_HASHES: Final = 7
_FALSE_HITS: Final = 0.01
_USELESS: Final = 0.5
"""Share of false positives above which a filter is not stored."""


class HeaderSummarizer:
    """Summarizes headers of an estimated number of messages."""

    def __init__(self, names: Sequence[str], messages_count: int) -> None:
        self._names = HeaderNames(names)
        wanted = messages_count * _BITS_OF_A_VALUE // 8
        self._bloom_bytes = min(max(_MIN_BLOOM_BYTES, 1 << max(0, wanted - 1).bit_length()), _MAX_BLOOM_BYTES)
        bits = 8 * self._bloom_bytes
        self._hashes = min(_HASHES, max(1, round(math.log(2) * bits / max(1, messages_count))))
        self._blooms = bytearray(self._bloom_bytes * len(names))
        self._found = [_Found() for _ in names]
        self.messages_count = 0

    def add(self, stored: BytesLike) -> None:
        """Add messages."""
        lists = [found.listed is not None for found in self._found]
        count, values = summarize_headers(stored, self._names, lists, self._blooms, self._hashes)
        self.messages_count += count
        for found, added in zip(self._found, values, strict=count > 0):
            found.add(added)

    def finish(self) -> dict[str, ValueSummary]:
        """Return the summaries of the headers, by name."""
        blooms = (self._blooms[at : at + self._bloom_bytes] for at in range(0, len(self._blooms), self._bloom_bytes))
        return {
            name: found.summary(_fold(bytes(bloom), self._hashes))
            for name, found, bloom in zip(self._names.names, self._found, blooms, strict=True)
        }


class _Found:
    """The values of one header that have been found so far."""

    __slots__ = ("booleans", "has_floats", "has_nan", "has_null", "has_opaque", "listed", "numbers", "texts")

    def __init__(self) -> None:
        self.has_null = self.has_opaque = self.has_nan = self.has_floats = False
        self.booleans: frozenset[bool] = frozenset()
        self.numbers: tuple[Number, Number] | None = None
        self.texts: tuple[bytes, bytes] | None = None
        self.listed: dict[Scalar, None] | None = {}

    def add(self, values: HeaderValues) -> None:
        self.has_null |= values.nulls_count > 0
        self.has_opaque |= values.opaque_count > 0
        self.has_nan |= values.nan_count > 0
        self.has_floats |= values.floats is not None
        found = {value for value, count in ((False, values.false_count), (True, values.true_count)) if count}
        self.booleans |= found
        for numbers in (values.wholes, values.floats):
            if numbers is not None:
                least, most = self.numbers or numbers
                self.numbers = min(least, numbers[0]), max(most, numbers[1])
        if values.texts is not None:
            first, last = self.texts or values.texts
            self.texts = min(first, values.texts[0]), max(last, values.texts[1])
        if self.listed is not None:
            self._list(values.listed)

    def _list(self, values: tuple[Scalar, ...] | None) -> None:
        is_short = values is not None and all(not isinstance(each, bytes) or len(each) <= MAX_TEXT_BYTES for each in values)
        listed = {**(self.listed or {}), **dict.fromkeys(values or ())}
        self.listed = listed if is_short and len(listed) <= MAX_LISTED else None

    def summary(self, bloom: Bloom | None) -> ValueSummary:
        """Return the summary; it has a Bloom filter unless the values are listed."""
        listed = None if self.listed is None else (*self.listed, *sorted(self.booleans))
        return ValueSummary(
            has_null=self.has_null,
            has_opaque=self.has_opaque,
            booleans=self.booleans,
            numbers=self.numbers,
            has_nan=self.has_nan,
            texts=None if self.texts is None else (self.texts[0][:MAX_TEXT_BYTES], _upper_bound(self.texts[1])),
            values=listed,
            bloom=bloom if listed is None else None,
            has_floats=self.has_floats,
        )


def _upper_bound(text: bytes) -> bytes | None:
    """Return a short upper bound of a string and of all strings that begin with its prefix; None if there is no upper bound."""
    if len(text) <= MAX_TEXT_BYTES:
        return text
    prefix = text[:MAX_TEXT_BYTES].rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None


def _fold(bits: bytes, hashes: int) -> Bloom | None:
    """Return the smallest Bloom filter with few false positives; None if even the largest filter has too many."""
    number, size = int.from_bytes(bits, "little"), len(bits)
    while size > _MIN_BLOOM_BYTES:
        half = size // 2
        folded = (number >> 8 * half) | (number & ((1 << 8 * half) - 1))
        if (folded.bit_count() / (8 * half)) ** hashes > _FALSE_HITS:
            break
        number, size = folded, half
    is_useless = (number.bit_count() / (8 * size)) ** hashes > _USELESS
    return None if is_useless else Bloom(number.to_bytes(size, "little"), hashes)
