"""Unit tests of headstream.core.wire.extensions.groups."""

from __future__ import annotations

from tests.unit.core.wire.test_extensions import LAG


def test_a_groups_lag_counts_from_the_oldest_message_where_nothing_is_committed() -> None:
    assert LAG.lag == (9 - 5) + (9 - 2)
    assert LAG.spell()["lag"] == 11
