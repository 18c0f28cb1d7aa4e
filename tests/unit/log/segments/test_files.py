"""Reading files, what the system refuses, and buffers that are used again."""

from __future__ import annotations

import errno
import os
import time
from functools import partial
from pathlib import Path
from typing import cast

import pytest

from headstream.errors import StorageError
from headstream.log.segments.files import BufferPool, OsReadFiles, storage_error
from tests.support.waiting import run_together


def test_read_into_gives_fewer_bytes_only_at_the_end_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"0123456789")
    file = OsReadFiles().open_read(str(tmp_path / "f"))
    assert file is not None
    buffer = memoryview(bytearray(4))
    assert (file.read_into(buffer, 2), bytes(buffer)) == (4, b"2345")
    assert (file.read_into(buffer, 8), bytes(buffer[:2])) == (2, b"89")
    assert file.read_into(buffer, 50) == 0
    assert file.size_bytes() == 10
    file.close()
    file.close()


def test_missing_files_and_directories_are_none(tmp_path: Path) -> None:
    files = OsReadFiles()
    assert files.open_read(str(tmp_path / "missing")) is None
    assert files.list_names(str(tmp_path / "missing")) is None
    assert files.changed(str(tmp_path / "missing")) is None
    assert not files.exists(str(tmp_path / "missing"))


def test_changed_differs_when_names_come_and_go(tmp_path: Path) -> None:
    files = OsReadFiles()
    before = files.changed(str(tmp_path))
    (tmp_path / "new").mkdir()
    after = files.changed(str(tmp_path))
    assert None not in (before, after)
    assert after != before


@pytest.mark.parametrize("clock_ns", [1, 10**18, 4 * 10**18], ids=["set back", "frozen", "ahead"])
def test_changed_differs_whatever_the_clock_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock_ns: int) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: clock_ns)
    written_ns = 10**18  # in the same tick as the look at the clock, or as the clock will say only later
    os.utime(tmp_path, ns=(written_ns, written_ns))
    files = OsReadFiles()
    looks = [files.changed(str(tmp_path)) for _ in range(3)]
    if clock_ns > written_ns:
        assert looks == [written_ns] * 3
    else:
        assert len(set(looks)) == 3


@pytest.mark.parametrize("operation", ["open_read", "list_names", "changed", "exists"])
def test_operations_translate_what_the_system_refuses(tmp_path: Path, operation: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    path = str(tmp_path / "file" / "below")
    with pytest.raises(StorageError, match=r"Not a directory .*below.*A part of the path is a file"):
        getattr(OsReadFiles(), operation)(path)


def test_read_translates_what_the_system_refuses(tmp_path: Path) -> None:
    file = OsReadFiles().open_read(str(tmp_path))  # a directory can be opened, but not read
    assert file is not None
    with pytest.raises(StorageError, match=f"cannot read a file: Is a directory \\({tmp_path}\\)"):
        file.read_into(memoryview(bytearray(1)), 0)


def test_storage_error_says_what_to_do_about_it() -> None:
    error = storage_error(OSError(errno.ENOSPC, "?"), "write to a file", "/d/f")
    assert str(error).startswith("cannot write to a file: No space left on device (/d/f). Free space")


def test_take_gives_the_same_buffer_again_once_it_is_let_go() -> None:
    pool = BufferPool()
    first = pool.take(100)
    memory = first.obj
    del first
    second = pool.take(50)
    assert second.obj is memory
    assert len(second) == 50


def test_take_never_gives_a_buffer_that_is_still_looked_at() -> None:
    pool = BufferPool()
    views = [pool.take(10) for _ in range(20)]
    for number, view in enumerate(views):
        view[:] = bytes([number]) * 10
    assert [bytes(view) for view in views] == [bytes([number]) * 10 for number in range(20)]


def test_take_grows_what_it_gives() -> None:
    pool = BufferPool()
    for size in (1, 70_000, 10, 1 << 20, 3):
        assert len(pool.take(size)) == size


@pytest.mark.parametrize("size", [(1 << 20) + 61, 3 << 20, (10 << 20) + 1])
def test_take_gives_little_more_memory_than_was_asked_for(size: int) -> None:
    assert len(cast(bytearray, BufferPool().take(size).obj)) <= size * 5 // 4


def test_take_is_safe_for_many_threads() -> None:
    pool, wrong = BufferPool(4), []

    def use(number: int) -> None:
        for _ in range(300):
            view = pool.take(64)
            view[:] = bytes([number]) * 64
            if bytes(view) != bytes([number]) * 64:
                wrong.append(number)

    run_together(*(partial(use, number) for number in range(4)))
    assert not wrong
