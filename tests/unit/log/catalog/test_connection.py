"""Unit tests of headstream.log.catalog.connection."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from headstream.errors import CorruptLogError, DiskFullError, LogVersionError, StorageError
from headstream.log.catalog.catalog import Catalog
from tests.unit.log.catalog.test_catalog import add


def test_catalog_of_a_directory_that_cannot_be_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    writer = Catalog(str(path), is_writer=True)
    add(writer, "a", "x")
    writer.close()
    assert [entry.name for entry in tmp_path.iterdir()] == ["catalog.sqlite"]
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    child = os.fork() if os.getuid() == 0 else 0  # root may write anywhere: look as somebody else
    if child == 0 and os.getuid() == 0:
        code = 1
        try:
            for directory in list(tmp_path.parents)[:3]:
                directory.chmod(0o755)
            os.setuid(65534)
            code = 0 if list(Catalog(str(path), is_writer=False).snapshot()["a"].topics) == ["x"] else 2
        finally:
            os._exit(code)
    if child:
        assert os.waitpid(child, 0)[1] == 0
    else:
        assert list(Catalog(str(path), is_writer=False).snapshot()["a"].topics) == ["x"]
    tmp_path.chmod(0o755)


@pytest.mark.parametrize("is_writer", [False, True])
def test_catalog_refuses_a_file_that_is_no_database(tmp_path: Path, is_writer: bool) -> None:
    (tmp_path / "catalog.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(CorruptLogError, match="the catalog is damaged: file is not a database"):
        Catalog(str(tmp_path / "catalog.sqlite"), is_writer=is_writer)


def test_catalog_refuses_a_truncated_database(tmp_path: Path) -> None:
    path = tmp_path / "catalog.sqlite"
    writer = Catalog(str(path), is_writer=True)
    for number in range(50):
        add(writer, f"s{number}", *(f"t{n}" for n in range(20)))
    writer.close()
    path.write_bytes(path.read_bytes()[:6000])
    with pytest.raises(CorruptLogError, match="the catalog is damaged"), closing(Catalog(str(path), is_writer=False)) as reader:
        reader.snapshot()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not list open files")
@pytest.mark.parametrize("is_writer", [True, False])
def test_catalog_that_is_refused_leaves_no_file_open(tmp_path: Path, is_writer: bool) -> None:
    newer, other = tmp_path / "newer.sqlite", tmp_path / "other.sqlite"
    with closing(sqlite3.connect(newer)) as connection:
        connection.execute("PRAGMA user_version = 99")
    other.write_bytes(b"not a database at all" * 500)
    refused = []
    for path, error in ((newer, LogVersionError), (other, CorruptLogError)):
        with pytest.raises(error) as raised:
            Catalog(str(path), is_writer=is_writer)
        refused.append(raised)  # whose traceback keeps the catalog from being collected
    left = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert [name for name in left if name.startswith(str(tmp_path))] == []


def test_catalog_translates_a_directory_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="unable to open database file"):
        Catalog(str(tmp_path / "none" / "catalog.sqlite"), is_writer=True)


def test_a_full_disk_is_told_from_other_refusals(tmp_path: Path) -> None:
    catalog = Catalog(str(tmp_path / "catalog.sqlite"), is_writer=True)
    catalog._connection.execute("PRAGMA max_page_count = 1")
    with pytest.raises(DiskFullError, match="database or disk is full"), catalog.transaction():
        catalog.insert_stream("stream" * 10000, 5)
    assert catalog.snapshot() == {}
