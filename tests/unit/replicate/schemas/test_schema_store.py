"""Unit tests of headstream.replicate.schemas.schema_store."""

from __future__ import annotations

from pathlib import Path

from headstream.replicate.schemas import zone
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema


def test_schema_store_has_one_mark_of_its_own_however_often_it_is_opened(tmp_path: Path) -> None:
    first, other = SchemaStore(tmp_path / "zone"), SchemaStore(tmp_path / "other")
    assert first.mark() == SchemaStore(tmp_path / "zone").mark() != other.mark()
    assert first.scan() == 0


def test_former_names_are_the_same_classes_when_an_older_program_imports_them() -> None:
    assert (zone.SchemaZone, zone.ZoneEntry) == (SchemaStore, StoredSchema)
