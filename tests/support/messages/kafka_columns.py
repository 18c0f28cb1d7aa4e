"""Kafka's header lists as buffers in Arrow's layout, as the kernels take and give them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise

from headstream.core.codec.batch.results import VariableColumn
from headstream.core.codec.buffer import BytesLike
from headstream.core.codec.kafka import KafkaHeader


def varied(values: Sequence[bytes | None]) -> VariableColumn:
    """Return values as a column."""
    bits = [value is not None for value in values]
    validity = bytes(sum(bit << at for at, bit in enumerate(bits[start : start + 8])) for start in range(0, len(bits), 8))
    return VariableColumn(_offsets([len(value or b"") for value in values]), b"".join(value or b"" for value in values), validity)


def kafka_columns(rows: Sequence[Sequence[KafkaHeader]]) -> tuple[int, VariableColumn, VariableColumn, VariableColumn]:
    """Return how many rows there are, their lists, keys and values."""
    headers = [header for row in rows for header in row]
    keys = varied([key.encode() for key, _ in headers])._replace(validity=None)
    return len(rows), VariableColumn(_offsets([len(row) for row in rows]), b""), keys, varied([value for _, value in headers])


def kafka_rows(lists: BytesLike, keys: VariableColumn, values: VariableColumn) -> list[list[KafkaHeader]]:
    """Return the headers row by row."""
    names = [(key or b"").decode() for key in _values(keys)]
    headers = list(zip(names, _values(values), strict=True))
    return [headers[begin:end] for begin, end in pairwise(_numbers(lists))]


def _values(column: VariableColumn) -> list[bytes | None]:
    data, validity = bytes(column.data), column.validity
    return [
        data[begin:end] if validity is None or memoryview(validity)[at >> 3] >> (at & 7) & 1 else None
        for at, (begin, end) in enumerate(pairwise(_numbers(column.offsets)))
    ]


def _numbers(offsets: BytesLike) -> tuple[int, ...]:
    return struct.unpack(f"<{memoryview(offsets).nbytes // 4}i", offsets)


def _offsets(sizes: list[int]) -> bytes:
    return struct.pack(f"<{len(sizes) + 1}i", 0, *accumulate(sizes))
