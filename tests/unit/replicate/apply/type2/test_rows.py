"""Unit tests of headstream.replicate.apply.type2.rows."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa

from headstream.replicate.apply.type2.rows import commit_times
from tests.support.replicate.change_tables import sequence


def test_commit_times_are_those_of_sequences_and_of_loaded_rows() -> None:
    sequences = pa.array([sequence(1), "", None, f"{sequence(3)}.1690000000000000", "2023-broken"])
    assert commit_times(sequences).to_pylist() == [
        datetime(2023, 3, 21, 21, 34, 16, 580_000, UTC),
        None,
        None,
        datetime.fromtimestamp(1_690_000_000, UTC),
        None,
    ]
