"""Unit tests of headstream.replicate.schemas.zone."""

from __future__ import annotations

from pathlib import Path

from headstream.replicate.schemas.zone import SchemaZone


def test_zone_has_one_mark_of_its_own_however_often_it_is_opened(tmp_path: Path) -> None:
    first, other = SchemaZone(tmp_path / "zone"), SchemaZone(tmp_path / "other")
    assert first.mark() == SchemaZone(tmp_path / "zone").mark() != other.mark()
    assert first.scan() == 0
