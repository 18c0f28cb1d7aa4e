"""Unit tests of headstream.log.partition.segment_removal."""

from __future__ import annotations

from pathlib import Path

from headstream.log.partition.segment_removal import finish_drops
from headstream.log.system.files import OsFiles


def test_finish_drops_leaves_alone_what_is_no_dropped_segment(tmp_path: Path) -> None:
    for name in ("00000000000000000000.log", "00000000000000000000.index", "note.dropped"):
        (tmp_path / name).write_bytes(b"")
    finish_drops(str(tmp_path), OsFiles())
    assert len(list(tmp_path.iterdir())) == 3
