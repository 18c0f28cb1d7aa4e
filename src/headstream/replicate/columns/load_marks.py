"""Steps of H, the highest change sequence of a table up to a log time; see loads.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mark: TypeAlias = tuple[int, str]
"""A step of H: a log time, and the highest change sequence logged up to that time."""


def steps_of(times: npt.NDArray[np.int64], sequences: pa.Array) -> list[Mark]:
    """Return the steps of the running maximum of change sequences, one per time; `times` must be ascending."""
    ranks = pc.rank(sequences, "ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    reached = np.maximum.accumulate(ranks)
    is_step = np.diff(reached, prepend=-1) > 0
    is_last = np.append(np.diff(times) > 0, True)
    at = np.flatnonzero(np.logical_or.reduceat(is_step, np.flatnonzero(np.append(True, is_last[:-1]))))
    ends = np.flatnonzero(is_last)[at]
    first_of_rank = np.zeros(int(ranks.max()) + 1, np.int64)
    first_of_rank[ranks] = np.arange(len(ranks))
    found = sequences.take(pa.array(first_of_rank[reached[ends]])).to_pylist()
    return list(zip(times[ends].tolist(), found, strict=True))


def thinned(marks: Sequence[Mark], most: int) -> list[Mark]:
    """Return at most `most` marks, dropping every second mark of the older half until the remaining marks fit."""
    kept = list(marks)
    while len(kept) > most:
        del kept[: len(kept) // 2 : 2]
    return kept
