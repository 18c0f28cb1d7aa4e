"""Unit tests of headstream.core.codec.conversion.findings."""

from __future__ import annotations

from headstream.core.codec.conversion import POLICIES


def test_every_policy_is_told() -> None:
    assert set(POLICIES) == {"error", "drop", "widen", "text", "bare"}
