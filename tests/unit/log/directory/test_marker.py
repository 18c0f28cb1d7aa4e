"""The marker: what is a log, and what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headstream.errors import CorruptLogError, LogVersionError, NotALogError
from headstream.log.directory.marker import Marker, read_marker, write_marker
from headstream.log.system.files import OsFiles

MARKER = Marker(1, "3b1f", 1_690_000_000_000_000)


def test_read_marker_gives_back_what_was_written(tmp_path: Path) -> None:
    write_marker(str(tmp_path), OsFiles(), MARKER)
    assert json.loads((tmp_path / "headstream.json").read_text()) == {
        "format": 1, "identity": "3b1f", "created_us": 1_690_000_000_000_000
    }  # fmt: skip
    assert read_marker(str(tmp_path), OsFiles()) == MARKER


@pytest.mark.parametrize("names", [[], ["headstream.lock"], ["headstream.lock", "catalog.sqlite", "catalog.sqlite-wal"]])
def test_read_marker_is_none_when_no_log_has_been_made_yet(tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).write_bytes(b"")
    assert read_marker(str(tmp_path), OsFiles()) is None
    assert read_marker(str(tmp_path / "missing"), OsFiles()) is None


def test_read_marker_refuses_a_directory_with_other_things_in_it(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(b"")
    with pytest.raises(
        NotALogError, match=rf"contains 'photo\.jpg' but no headstream\.json \({tmp_path}\)\. Specify a log directory"
    ):
        read_marker(str(tmp_path), OsFiles())


def test_read_marker_refuses_a_newer_format(tmp_path: Path) -> None:
    write_marker(str(tmp_path), OsFiles(), Marker(2, "x", 0))
    with pytest.raises(LogVersionError, match="has format 2, but this version of Headstream reads 1"):
        read_marker(str(tmp_path), OsFiles())


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "{}", '{"format": "1", "identity": "x", "created_us": 1}', '{"format": 0, "identity": "x"}', "\xff"],
)
def test_read_marker_refuses_what_it_cannot_understand(tmp_path: Path, text: str) -> None:
    (tmp_path / "headstream.json").write_text(text, encoding="latin-1")
    with pytest.raises(CorruptLogError, match="marker cannot be read"):
        read_marker(str(tmp_path), OsFiles())
