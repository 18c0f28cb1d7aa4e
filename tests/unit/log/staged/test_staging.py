"""Unit tests of headstream.log.staged.staging."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from headstream.errors import StorageError
from headstream.log.staged.staging import Manifest, StagedWriter, epoch_directory, sweep_abandoned
from headstream.log.system.files import OsFiles
from tests.support.log.logs import batch
from tests.support.log.staged import ORDERS, ROWS, begin, is_swept, make_log, manifest_of, stage


def test_a_manifest_says_when_it_is_not_what_was_written() -> None:
    manifest = Manifest("query", 3, "identity", {}, ())
    assert Manifest.decode(manifest.encode(), "here") == manifest
    for damaged in (b"", b"{}", manifest.encode()[:-3], manifest.encode().replace(b"query", b"quern")):
        with pytest.raises(StorageError.__mro__[1], match=r"cannot be read.*\(here\)"):
            Manifest.decode(damaged, "here")


def test_what_nobody_committed_is_swept_a_day_after_its_last_byte(tmp_path: Path) -> None:
    make_log(tmp_path, {ORDERS: 2})
    old, waiting = (stage(tmp_path, name, 1, "0", ROWS) for name in ("once-old", "once-waiting"))
    begin(tmp_path, manifest_of("once-waiting", 1, waiting))
    places = [Path(epoch_directory(str(tmp_path), name, 1)) for name in ("once-old", "once-waiting")]
    paths = [places[0] / old.name, places[1] / waiting.name]
    days_ago_s = time.time() - 2 * 86_400
    for directory in places:
        os.utime(directory, (days_ago_s, days_ago_s))
    sweep_abandoned(str(tmp_path), OsFiles(), time.time_ns() // 1000)
    assert [path.exists() for path in paths] == [True, True]  # they were made long ago, and are written to
    for path in paths:
        os.utime(path, (days_ago_s, days_ago_s))
    sweep_abandoned(str(tmp_path), OsFiles(), time.time_ns() // 1000)
    assert [path.exists() for path in paths] == [False, True]
    assert [directory.exists() for directory in places] == [False, True]


def test_a_staged_file_that_is_discarded_or_empty_leaves_nothing(tmp_path: Path) -> None:
    writer = StagedWriter(str(tmp_path), OsFiles(), "q", 1, "0")
    assert writer.finish() is None
    writer = StagedWriter(str(tmp_path), OsFiles(), "q", 1, "0")
    writer.add(ORDERS, 1, batch(b"a"), 1)
    writer.discard()
    assert is_swept(tmp_path)
