"""Computes a row's change sequence from the `source` block of its connector: 35 characters that compare as a string.

A sequence has these numbers in hexadecimal with fixed widths, the most significant first:

    postgresql       previous commit's lsn 16 | lsn 13 | number in the transaction 6, only for tables without a key
    mysql, mariadb   number of the binlog file 8 | pos 13 | row 14
    sqlserver        commit_lsn 16 | change_lsn 16 | event_serial_no 3     (6, 6 and 4 digits of the three parts of an LSN)
    oracle           commit_scn 13 | scn 13 | number in the transaction, or ssn 9
    others           the fields in the setting `sequence`: 16 each | 0

Every connector sends the changes of a row in this order, since a transaction locks the rows that it changes. PostgreSQL's field
`sequence` has the lsn of the last commit before the change's transaction. The first transaction after the start of a slot has no
previous commit; the change's own lsn is used instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers: TypeAlias = npt.NDArray[np.int64]
_WIDTH: Final = 35
_DIGITS: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
SOURCE_FIELDS: Final = {
    "connector": pa.string(), "name": pa.string(), "snapshot": pa.string(), "db": pa.string(), "schema": pa.string(),
    "table": pa.string(), "ts_ms": pa.int64(), "sequence": pa.string(), "lsn": pa.int64(), "file": pa.string(), "pos": pa.int64(),
    "row": pa.int64(), "commit_lsn": pa.string(), "change_lsn": pa.string(), "event_serial_no": pa.int64(), "scn": pa.string(),
    "commit_scn": pa.string(), "ssn": pa.int64(),
}  # fmt: skip
"""The fields of `source` to read, and their types; a field can be a number in one connector and a string in another."""


class _Positions:
    """The numbers of rows; `valid` has the rows whose numbers are all known and fit their widths."""

    def __init__(self, source: Mapping[str, pa.Array], count: int) -> None:
        self._source = source
        self._count = count
        self.valid = np.ones(count, np.bool_)
        self.parts: list[npt.NDArray[np.uint8]] = []

    def texts(self, name: str) -> pa.Array:
        found = self._source.get(name)
        return pa.nulls(self._count, pa.string()) if found is None else found.cast(pa.string())

    def field(self, name: str) -> pa.Array:
        return _whole_numbers(self.texts(name))

    def add(self, numbers: pa.Array, width: int, *, required: bool = True) -> None:
        """Append numbers as hexadecimal digits."""
        if required:
            self.valid &= numbers.is_valid().to_numpy(zero_copy_only=False)
        values: Numbers = pc.fill_null(numbers, 0).to_numpy(zero_copy_only=False).astype(np.int64)
        self.valid &= (values >= 0) & (values < 1 << min(4 * width, 62))
        shifts = np.arange(width - 1, -1, -1, dtype=np.int64) * 4
        self.parts.append(_DIGITS[(values[:, None] >> shifts) & 15])


def _whole_numbers(texts: pa.Array) -> pa.Array:
    digits = pc.match_substring_regex(texts, r"^\d{1,18}$")
    return pc.if_else(digits, texts, pa.scalar(None, pa.string())).cast(pa.int64())


def change_sequences(
    connector: str,
    source: Mapping[str, pa.Array],
    total_order: pa.Array,
    *,
    has_key: bool,
    is_read: npt.NDArray[np.bool_],
    fields: Sequence[str] = (),
) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Return the change sequences of the given rows, and which sequences are known.

    Args:
        connector: Name of the connector, for example `postgresql`.
        source: Field of `source` -> values.
        total_order: The rows' numbers in their transactions; null if there is no transaction metadata.
        has_key: Whether the table has a key, so the changes of a row have different positions.
        is_read: The rows that an incremental snapshot has read. Such a row can have the position of a newer change that Debezium
            sends later (`read.only`), so its byte position is reduced by one; no change has that position.
        fields: The setting `sequence`, which takes precedence over the connector's order.
    """
    found = _Positions(source, len(total_order))
    if fields:
        for name in fields:
            found.add(found.field(name), 16)
    elif connector == "postgresql":
        sequence = pc.extract_regex(found.texts("sequence"), r'^\[(?:"(?P<commit>\d+)"|null),"(?P<lsn>\d+)"\]$')
        before, place = (_whole_numbers(pc.struct_field(sequence, name)) for name in ("commit", "lsn"))
        # The rows of an incremental snapshot have no `lsn`.
        lsn = pc.subtract(pc.coalesce(found.field("lsn"), place), pa.array(is_read, pa.int64()))
        found.add(pc.coalesce(before, lsn), 16)
        found.add(lsn, 13)
        if not has_key:
            found.add(pc.if_else(pc.greater(total_order, 0xFFFFFF), 0xFFFFFF, total_order), 6, required=False)
    elif connector in ("mysql", "mariadb"):
        found.add(_whole_numbers(pc.struct_field(pc.extract_regex(found.texts("file"), r"\.(?P<n>\d+)$"), "n")), 8)
        found.add(pc.subtract(found.field("pos"), pa.array(is_read, pa.int64())), 13)
        found.add(found.field("row"), 14, required=False)
    elif connector == "sqlserver":
        for name in ("commit_lsn", "change_lsn"):
            _add_lsn(found, name)
        found.add(found.field("event_serial_no"), 3, required=False)
    elif connector == "oracle":
        found.add(found.field("commit_scn"), 13)
        found.add(found.field("scn"), 13)
        found.add(pc.coalesce(total_order, found.field("ssn")), 9, required=False)
    else:
        found.valid[:] = False
    return _join(found), found.valid


def _add_lsn(found: _Positions, name: str) -> None:
    """Append an LSN of SQL Server, `00000027:00000758:0005`, without the two leading zeros of its first and second parts."""
    pattern = r"^00(?P<file>[0-9a-fA-F]{6}):00(?P<block>[0-9a-fA-F]{6}):(?P<slot>[0-9a-fA-F]{4})$"
    parts = pc.extract_regex(found.texts(name), pattern)
    joined = pc.binary_join_element_wise(*(pc.struct_field(parts, part) for part in ("file", "block", "slot")), "")
    found.valid &= joined.is_valid().to_numpy(zero_copy_only=False)
    texts = pc.ascii_upper(pc.fill_null(joined, "0" * 16))
    found.parts.append(np.frombuffer("".join(texts.to_pylist()).encode(), np.uint8).reshape(-1, 16))


def _join(found: _Positions) -> pa.Array:
    count = len(found.valid)
    zeros = np.full((count, _WIDTH), ord("0"), np.uint8)
    digits = np.concatenate([*found.parts, zeros], axis=1)[:, :_WIDTH]
    offsets = np.arange(count + 1, dtype=np.int32) * _WIDTH
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(digits.tobytes())])
