"""Unit tests of headstream.replicate.run.summary."""

from __future__ import annotations

from headstream.replicate.run.summary import commit_time_us


def test_commit_time_is_read_from_a_change_sequence() -> None:
    assert commit_time_us("20230321213416580000000000000000017") == 1_679_434_456_580_000
    assert commit_time_us("") is None
