"""Computes the versions (SCD type 2) that changes open and close, column by column, without I/O.

A row of the table is a version of the source's row:

    <columns>            values of the row
    _hs_valid_from       string     sequence of the change that opened the version
    _hs_valid_to         string     sequence of the change that closed the version; null if open
    _hs_valid_from_time  timestamp  commit time of the opening change at the source; for a row of a full load, the log time
    _hs_valid_to_time    timestamp  commit time of the closing change, likewise
    _hs_current          boolean    whether the version is open
    _hs_deleted          boolean    whether the row is deleted; such a version is valid only with soft deletions
    _hs_versions         string     the version of each column, see versions.py; null: every column has the version _hs_valid_from

Nearly all changes are complete and newer than all stored versions of their key. Such changes are sorted and compared to their
neighbours. The histories of all other keys are replayed key by key (replay.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headstream.replicate.columns.versions import LOAD_MARK, load_floor

HISTORY_COLUMNS: Final = {
    "_hs_valid_from": "STRING",
    "_hs_valid_to": "STRING",
    "_hs_valid_from_time": "TIMESTAMP",
    "_hs_valid_to_time": "TIMESTAMP",
    "_hs_current": "BOOLEAN",
    "_hs_deleted": "BOOLEAN",
    "_hs_versions": "STRING",
}

_TIME_CHARACTERS: Final = 16  # YYYYMMDDHHmmSShh
_LOAD_TIME: Final = r"\.(?P<us>\d{16})$"
_Ints = npt.NDArray[np.int64]
_Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class VersionPlan:
    """The versions that a batch of changes opens and closes.

    Args:
        opened: Positions of the changes that open a version.
        valid_to: The sequence that closes each opened version; null if the version stays open.
        closed: Positions of the stored versions to close.
        replayed: Positions of the changes whose key histories must be replayed.
    """

    opened: _Ints
    valid_to: pa.Array
    closed: _Ints
    closed_to: pa.Array
    replayed: _Ints


def divide(stored: pa.Table, events: pa.Table, keys: list[str], *, soft: bool, ends: Sequence[str] = ()) -> VersionPlan:
    """Return the versions that changes open and close, and the changes whose key histories must be replayed.

    Args:
        stored: Versions of the same keys: key columns, `_hs_valid_from`, `_hs_valid_to`, `_hs_deleted`, `_hs_versions`;
            versions that ended before the oldest change can be omitted.
        events: Changes with key columns, `_hs_sequence`, `_hs_delete`, `_hs_partial` (columns of the table are omitted).
        soft: Whether a deletion opens a version, with the values of the previous version.
        ends: Positions at which loads have closed versions; a change can reopen these versions.
    """
    rows = _sorted(stored, events, keys)
    if not rows.count:
        none = np.zeros(0, np.int64)
        return VersionPlan(none, pa.array([], pa.string()), none, pa.array([], pa.string()), none)
    rows = rows.take(~_repeats(rows))
    slow = _replayed_groups(rows, soft=soft, ends=ends)[rows.group]
    replayed = rows.place[slow & ~rows.is_stored]
    rows = rows.take(~slow)
    following = _following(rows)
    opens = ~rows.is_stored & ~rows.deletes
    closes = rows.is_stored & (rows.valid_to == rows.open_rank) & (following >= 0)
    names = rows.sequences
    return VersionPlan(
        rows.place[opens],
        pc.take(names, pa.array(rows.rank[following[opens]], mask=following[opens] < 0)),
        rows.place[closes],
        pc.take(names, pa.array(rows.rank[following[closes]])),
        replayed,
    )


@dataclass(frozen=True, slots=True)
class _Rows:
    """Stored versions and changes, sorted by key and sequence; at one sequence, deletions precede stored versions."""

    group: _Ints  # one number per key
    rank: _Ints  # of the sequence, among all sequences here
    valid_to: _Ints  # of a stored version; open_rank while it is open
    open_rank: int
    is_stored: _Bools
    deletes: _Bools
    whole: _Bools
    place: _Ints  # in its table
    sequences: pa.StringArray  # by rank

    @property
    def count(self) -> int:
        return len(self.group)

    def take(self, chosen: _Bools) -> _Rows:
        arrays = (self.group, self.rank, self.valid_to)
        flags = (self.is_stored, self.deletes, self.whole)
        group, rank, valid_to = (array[chosen] for array in arrays)
        is_stored, deletes, whole = (array[chosen] for array in flags)
        return _Rows(group, rank, valid_to, self.open_rank, is_stored, deletes, whole, self.place[chosen], self.sequences)


def _sorted(stored: pa.Table, events: pa.Table, keys: list[str]) -> _Rows:
    count = stored.num_rows + events.num_rows
    sequence = pa.chunked_array([*stored["_hs_valid_from"].chunks, *events["_hs_sequence"].chunks], pa.string())
    ends = pa.chunked_array([*stored["_hs_valid_to"].chunks, pa.nulls(events.num_rows, pa.string())], pa.string())
    both = pa.chunked_array([*sequence.chunks, *ends.chunks], pa.string()).combine_chunks()
    names = pc.unique(both.drop_null())
    names = names.take(pc.sort_indices(names))
    ranks = pc.fill_null(pc.index_in(both, names), len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
    rank, valid_to = ranks[:count], ranks[count:]
    is_stored = np.arange(count) < stored.num_rows
    deletes = np.concatenate([_flags(stored["_hs_deleted"]), _flags(events["_hs_delete"])])
    whole = np.concatenate([_flags(pc.is_null(stored["_hs_versions"])), ~_flags(events["_hs_partial"])])
    place = np.concatenate([np.arange(stored.num_rows), np.arange(events.num_rows)])
    both_keys = pa.concat_tables([stored.select(keys), events.select(keys)])
    group = _numbers(both_keys)
    order = np.lexsort((~is_stored, ~deletes, rank, group))
    return _Rows(
        group[order],
        rank[order],
        valid_to[order],
        len(names),
        is_stored[order],
        deletes[order],
        whole[order],
        place[order],
        names,
    )


def _numbers(keys: pa.Table) -> _Ints:
    numbers = np.zeros(keys.num_rows, np.int64)
    for name in keys.column_names:
        codes = keys[name].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        pairs = numbers * (int(codes.max(initial=0)) + 1) + codes
        numbers = (
            np.unique(pairs, return_inverse=True)[1].astype(np.int64) if len(keys.column_names) > 1 else pairs.astype(np.int64)
        )
    return numbers


def _flags(array: pa.ChunkedArray) -> _Bools:
    return np.asarray(pc.fill_null(array, False).to_numpy(), np.bool_)


def _repeats(rows: _Rows) -> _Bools:
    """Return which changes are already stored or repeat an earlier change of the batch."""
    at = rows.group * (rows.open_rank + 1) + rows.rank
    ended = (rows.group * (rows.open_rank + 1) + rows.valid_to)[rows.is_stored & (rows.valid_to != rows.open_rank)]
    gone = np.concatenate([ended, at[rows.is_stored & rows.deletes]])
    there = at[rows.is_stored & ~rows.deletes & rows.whole]
    known = np.where(rows.deletes, np.isin(at, gone), rows.whole & np.isin(at, there)) & ~rows.is_stored
    twice = np.zeros(rows.count, np.bool_)
    twice[1:] = (at[1:] == at[:-1]) & (rows.deletes[1:] == rows.deletes[:-1]) & ~rows.is_stored[:-1] & ~rows.is_stored[1:]
    twice[1:] &= rows.whole[1:] & rows.whole[:-1]
    return np.asarray(known | twice, np.bool_)


def _replayed_groups(rows: _Rows, *, soft: bool, ends: Sequence[str]) -> _Bools:
    """Return, by group number, which histories must be replayed."""
    groups = int(rows.group.max(initial=-1)) + 1
    slow = np.zeros(groups, np.bool_)
    new = ~rows.is_stored
    slow[rows.group[new & ~rows.whole]] = True
    earliest = np.full(groups, rows.open_rank + 1, np.int64)
    np.minimum.at(earliest, rows.group[new], rows.rank[new])
    ended = rows.is_stored & (rows.valid_to != rows.open_rank)
    late = (rows.is_stored & (rows.rank >= earliest[rows.group])) | (ended & (rows.valid_to > earliest[rows.group]))
    slow[rows.group[late]] = True
    slow[rows.group[_loaded_again(rows) & new]] = True
    ended_by_load = pc.index_in(pa.array(ends, pa.string()), rows.sequences).drop_null().to_numpy()
    slow[rows.group[rows.is_stored & np.isin(rows.valid_to, ended_by_load)]] = True
    if soft:
        slow[rows.group[new & rows.deletes]] = True
        return slow
    # A deletion of a missing row is stored, unless an upsert of the same sequence replaces it.
    before = np.full(rows.count, -1, np.int64)
    before[1:] = np.where(rows.group[1:] == rows.group[:-1], np.arange(rows.count - 1), -1)
    finds = (before >= 0) & ~rows.deletes[before] & (~rows.is_stored[before] | (rows.valid_to[before] == rows.open_rank))
    slow[rows.group[new & rows.deletes & ~finds]] = True
    return slow


def _loaded_again(rows: _Rows) -> _Bools:
    """Return which load rows directly follow a row of the same load, and so may be the same row."""
    again = np.zeros(rows.count, np.bool_)
    if not pc.any(pc.match_substring(rows.sequences, LOAD_MARK)).as_py():
        return again
    floors = pa.array([load_floor(sequence) for sequence in rows.sequences.to_pylist()], pa.string())
    numbers = floors.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)[rows.rank]
    again[1:] = (rows.group[1:] == rows.group[:-1]) & (numbers[1:] == numbers[:-1]) & (numbers[1:] >= 0)
    return again


def _following(rows: _Rows) -> _Ints:
    """Return, for each row, the next row of the same key, or -1."""
    following = np.full(rows.count, -1, np.int64)
    following[:-1] = np.where(rows.group[1:] == rows.group[:-1], np.arange(1, rows.count), -1)
    return following


def commit_times(sequences: pa.Array) -> pa.Array:
    """Return the commit times in sequences, or null. A sequence of a full load ends with a period and the row's log time."""
    known: dict[str, Any] = {}
    heads = pc.utf8_slice_codeunits(sequences, 0, _TIME_CHARACTERS)
    loads = pc.match_substring(sequences, ".")
    encoded = heads.dictionary_encode()
    for head in encoded.dictionary.to_pylist():
        known[head] = _commit_time(head)
    kind = pa.timestamp("us", "UTC")
    values = pa.array([known[head] for head in encoded.dictionary.to_pylist()], kind)
    times = pc.take(values, encoded.indices)
    if not pc.any(loads).as_py():
        return times
    logged = pc.struct_field(pc.extract_regex(sequences, _LOAD_TIME), "us").cast(pa.int64()).cast(kind)
    return pc.if_else(pc.fill_null(loads, False), logged, times)


def _commit_time(head: str | None) -> datetime | None:
    if head is None or len(head) < _TIME_CHARACTERS or not head.isdigit():
        return None
    try:
        moment = datetime.strptime(head[:14], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment + timedelta(milliseconds=10 * int(head[14:]))
