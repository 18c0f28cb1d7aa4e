"""Divides changes into buckets by key. All changes of a key are in the same bucket, in every process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.columns.large_values import MAX_UNIT_BYTES, take_rows
from headstream.replicate.columns.raw import CHANGE_COORDINATES, offsets_and_data

_Hashes: TypeAlias = npt.NDArray[np.uint64]
_BASE: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def divide(rows: pa.Table, keys: Sequence[pa.ChunkedArray], count: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield the numbers of the buckets that have rows, with their rows in the given order."""
    if not rows.num_rows:
        return
    numbers = bucket_numbers(keys, rows.num_rows, count)
    order = np.argsort(numbers, kind="stable")
    ordered, sorted_numbers = take_rows(rows, pa.array(order)), numbers[order]
    starts = np.flatnonzero(np.diff(sorted_numbers, prepend=-1))
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), rows.num_rows], strict=True):
        yield int(sorted_numbers[start]), ordered.slice(start, end - start)


def bucket_numbers(keys: Sequence[pa.ChunkedArray], rows: int, count: int) -> npt.NDArray[np.int64]:
    """Return the bucket of each row; equal keys of the same type, without nulls and -0.0, have the same bucket."""
    hashes: _Hashes = np.zeros(rows, np.uint64)
    for column in keys:
        hashes = mix_hashes(hashes * _BASE + _hashes_of(column.combine_chunks()))
    return (hashes % np.uint64(count)).astype(np.int64)


def divide_changes(changes: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the parts in which decoded changes are merged, with their names; few changes are one part without a name.

    A hash of the transaction, or of the position in the log, selects the part, so a rerun divides the same changes in the same
    way. The name includes the number of parts.
    """
    count = -(-changes.nbytes // MAX_UNIT_BYTES)
    if count < 2:
        yield "", changes
        return
    places = pc.binary_join_element_wise(*(changes[name].cast(pa.string()) for name in CHANGE_COORDINATES), "/")
    transactions = changes["_hs_transaction"]
    names = pc.if_else(pc.equal(pc.fill_null(transactions, ""), ""), places, transactions)
    numbers = bucket_numbers([names], changes.num_rows, count)
    for number in range(count):
        chosen = numbers == number
        if chosen.any():
            yield f"/{number + 1}-{count}", changes.filter(pa.array(chosen))


def as_integers(values: pa.Array) -> pa.Array:
    """Return booleans, dates and timestamps as the integers that Arrow stores; values of other types unchanged."""
    kind = values.type
    if pa.types.is_boolean(kind):
        return values.cast(pa.int8())
    if pa.types.is_date32(kind):
        return values.cast(pa.int32())
    return values.cast(pa.int64()) if pa.types.is_timestamp(kind) else values


def _hashes_of(values: Any) -> _Hashes:
    kind, values = values.type, as_integers(values)
    if pa.types.is_integer(values.type):
        numbers: _Hashes = values.to_numpy(zero_copy_only=False).astype(np.int64).view(np.uint64)
        return numbers
    texts = values if pa.types.is_binary(kind) or pa.types.is_string(kind) else values.cast(pa.string())
    return _hashes_of_bytes(texts.cast(pa.binary()))


def _hashes_of_bytes(values: pa.BinaryArray) -> _Hashes:
    """Return a polynomial of the bytes of each value, modulo 2**64."""
    offsets, data = offsets_and_data(values)
    ends = np.frombuffer(offsets, np.int32).astype(np.int64)
    begin, lengths = int(ends[0]), np.diff(ends)
    used = np.frombuffer(data, np.uint8)[begin : int(ends[-1])].astype(np.uint64) + np.uint64(1)
    starts = ends[:-1] - begin
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, _BASE), dtype=np.uint64)
    weighted = used * powers[np.arange(used.size) - np.repeat(starts, lengths)]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighted, dtype=np.uint64)])
    hashes: _Hashes = sums[starts + lengths] - sums[starts]
    return hashes


def mix_hashes(hashes: _Hashes) -> _Hashes:
    """Return hashes whose low bits depend on all bits of the given hashes."""
    hashes = (hashes ^ (hashes >> np.uint64(30))) * _FIRST
    hashes = (hashes ^ (hashes >> np.uint64(27))) * _SECOND
    return hashes ^ (hashes >> np.uint64(31))
