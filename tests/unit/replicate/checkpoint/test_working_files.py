"""The working copy: each change is found, and the changes alone; applied to a copy they make the same files."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headstream.replicate.checkpoint.working_files import Changes, WorkingFiles


class Copy:
    """A directory, and a copy of it that gets the changes as a store's reader would."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "here"
        self.directory.mkdir()
        self.files = WorkingFiles(self.directory)
        self.copied: dict[str, bytearray] = {}

    def write(self, name: str, data: bytes, mode: str = "wb") -> Path:
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open(mode) as file:
            file.write(data)
        return path

    def follow(self, *below: str) -> Changes:
        changes = self.files.find_changes(below or ("",))
        for path in changes.removed:
            del self.copied[path]
        for change in changes.files:
            held = self.copied.setdefault(change.path, bytearray())
            data = b"".join(bytes(part) for part in self.files.data(changes, change))
            held.extend(bytes(max(0, change.size - len(held))))
            for at, length in change.pieces:
                held[at : at + length], data = data[:length], data[length:]
            del held[change.size :]
        self.files.accept(changes)
        return changes


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_nothing_is_found_when_nothing_has_changed(copy: Copy) -> None:
    copy.write("zone/a.json", b"a")
    copy.write("log/streams/1/1/1/0.log", b"abc")
    (copy.directory / "log/streams/1/2/1").mkdir(parents=True)
    assert {change.path for change in copy.follow().files} == {"zone/a.json", "log/streams/1/1/1/0.log", "log/streams/1/2/1/"}
    assert not copy.follow()


def test_only_what_was_appended_to_a_log_is_found(copy: Copy) -> None:
    name = "log/streams/1/1/1/0.log"
    copy.write(name, b"abc")
    copy.follow()
    copy.write(name, b"defg", "ab")
    (change,) = copy.follow().files
    assert change.pieces == [(3, 4)]
    assert copy.copied[name] == b"abcdefg"
    copy.write(name, b"x")
    copy.follow()
    assert copy.copied[name] == b"x"


def test_changed_pages_of_a_database_are_found_with_its_write_ahead_log(copy: Copy) -> None:
    with closing(sqlite3.connect(copy.directory / "ledger.sqlite", isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", [(number, "x" * 500) for number in range(1000)])
        copy.follow()
        connection.execute("UPDATE t SET text = 'y' WHERE id = 500")
        changes = copy.follow()
        changed = sum(length for change in changes.files for _, length in change.pieces)
        assert 0 < changed <= 3 * 4096
        assert not copy.follow()
        connection.execute("DELETE FROM t WHERE id > 2")
        connection.execute("VACUUM")
        copy.follow()
    with closing(sqlite3.connect(":memory:")) as read:
        read.deserialize(bytes(copy.copied["ledger.sqlite"]).replace(b"\x02\x02", b"\x01\x01", 1))
        assert read.execute("SELECT COUNT(*) FROM t").fetchone() == (3,)
    assert set(copy.copied) == {"ledger.sqlite"}


def test_new_replaced_and_removed_files_are_found_in_directories_that_have_rested(copy: Copy) -> None:
    for name in ("zone/a.json", "tombstones/s/t/_delta_log/0.json", "tombstones/s/t/part.parquet", "spark/offsets/0"):
        old = copy.write(name, name.encode())
        os.utime(old, (1, 1))
    for directory in (copy.directory, *(path for path in copy.directory.rglob("*") if path.is_dir())):
        os.utime(directory, (2, 2))
    copy.follow()
    assert not copy.follow()
    copy.write("tombstones/s/t/_delta_log/1.json", b"new")
    copy.write("spark/offsets/1.new", b"one").replace(copy.directory / "spark/offsets/0")
    (copy.directory / "zone/a.json").unlink()
    changes = copy.follow()
    assert changes.removed == ["zone/a.json"]
    assert {change.path for change in changes.files} == {"tombstones/s/t/_delta_log/1.json", "spark/offsets/0"}
    assert copy.copied["spark/offsets/0"] == b"one"


def test_only_the_named_files_and_directories_are_compared(copy: Copy) -> None:
    for name in ("tombstones/s/t/a", "tombstones/s/tt/a", "tables.sqlite.txt", "spark/b"):
        copy.write(name, b"1")
    assert {change.path for change in copy.follow("tombstones/s/t", "missing").files} == {"tombstones/s/t/a"}
    (copy.directory / "tombstones/s/t/a").unlink()
    copy.follow()
    copy.write("spark/b", b"2")
    assert not copy.follow("tombstones/s/t")


def test_files_of_a_moment_are_left_out(copy: Copy) -> None:
    names = ("log/headstream.lock", "driver.lock", "spark/.x.crc", "spark/a.tmp", "zone/.a.json.12", "ledger.sqlite-wal")
    for name in (*names, "zone/.zone"):
        copy.write(name, b"1")
    assert [change.path for change in copy.follow().files] == ["zone/.zone"]


def test_a_snapshot_has_everything_as_the_last_record_has_it(copy: Copy) -> None:
    copy.write("log/streams/1/1/1/0.log", b"abc")
    copy.write("zone/a.json", b"a")
    copy.follow()
    everything = copy.files.everything()
    assert everything is not None
    assert [(change.path, change.pieces) for change in everything.files] == [
        ("log/streams/1/1/1/0.log", [(0, 3)]),
        ("zone/a.json", [(0, 1)]),
    ]
    copy.write("zone/b.json", b"b")
    assert copy.files.everything() is None, "it has changed since"
