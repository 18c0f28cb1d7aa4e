"""Unit tests of headstream.core.codec.conversion.findings."""

from __future__ import annotations

from headstream.core.codec.conversion import POLICIES


def test_policies_are_the_five_that_convert_takes() -> None:
    assert set(POLICIES) == {"error", "drop", "widen", "text", "bare"}
