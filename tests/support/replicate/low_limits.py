"""Limits in bytes of units, releases, parked batches and Arrow arrays, lowered so that a few messages exceed them."""

from __future__ import annotations

import pytest

from headstream.replicate.columns import key_buckets, large_values
from headstream.replicate.parked import ledger, parking
from headstream.replicate.run import processor


def lower_limits(patch: pytest.MonkeyPatch, array_bytes: int, unit_bytes: int) -> None:
    """Lower every limit in bytes of the processing of units.

    Args:
        array_bytes: Size of a column from which on its rows are taken in pieces.
        unit_bytes: Most bytes of a release, and of a commit; a parked batch has an eighth of it.
    """
    patch.setattr(large_values, "MAX_ARRAY_BYTES", array_bytes)
    for module in (key_buckets, parking, ledger, processor):
        patch.setattr(module, "MAX_UNIT_BYTES", unit_bytes)
    patch.setattr(parking, "_MAX_PARKED_BATCH_BYTES", unit_bytes // 8)
