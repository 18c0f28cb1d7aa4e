"""Files: the operating system's and memory's do the same."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import pytest

from headstream.errors import StorageError
from headstream.log.system.files import Files, MemoryFiles, OsFiles
from headstream.log.system.linux import start_writing
from tests.support.crashes import fail_with


@pytest.fixture(params=["os", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    files: Files = OsFiles() if request.param == "os" else MemoryFiles()
    root = str(tmp_path) if request.param == "os" else "root"
    files.make_directory(root)
    return files, root


def content(files: Files, path: str) -> bytes:
    file = files.open_read(path)
    assert file is not None
    buffer = memoryview(bytearray(file.size_bytes()))
    file.read_into(buffer, 0)
    file.close()
    return bytes(buffer)


def test_write_at_puts_bytes_where_they_belong(place: tuple[Files, str]) -> None:
    files, root = place
    file = files.open_write(f"{root}/f")
    file.write_at(b"hello", 0)
    file.write_at(b"LL", 2)
    file.write_at(b"!", 7)
    file.sync()
    assert content(files, f"{root}/f") == b"heLLo\0\0!"
    file.truncate(3)
    assert (file.size_bytes(), content(files, f"{root}/f")) == (3, b"heL")
    file.close()
    again = files.open_write(f"{root}/f")
    assert again.size_bytes() == 3
    again.close()


def test_list_names_gives_files_and_directories_of_one_level(place: tuple[Files, str]) -> None:
    files, root = place
    files.make_directory(f"{root}/a/b")
    files.open_write(f"{root}/f").close()
    assert sorted(files.list_names(root) or []) == ["a", "f"]
    assert files.list_names(f"{root}/a") == ["b"]
    assert files.list_names(f"{root}/none") is None
    assert files.exists(f"{root}/a/b")
    assert files.exists(f"{root}/f")
    assert not files.exists(f"{root}/g")


def test_replace_leaves_the_new_content_and_nothing_else(place: tuple[Files, str]) -> None:
    files, root = place
    files.replace(f"{root}/f", b"long old content")
    files.replace(f"{root}/f", b"new")
    assert content(files, f"{root}/f") == b"new"
    assert files.list_names(root) == ["f"]


def test_rename_moves_a_file_or_a_whole_directory(place: tuple[Files, str]) -> None:
    files, root = place
    files.make_directory(f"{root}/a")
    files.replace(f"{root}/a/f", b"1")
    files.rename(f"{root}/a", f"{root}/b")
    assert content(files, f"{root}/b/f") == b"1"
    assert not files.exists(f"{root}/a")
    files.rename(f"{root}/b/f", f"{root}/g")
    assert content(files, f"{root}/g") == b"1"


def test_remove_is_fine_when_there_is_nothing(place: tuple[Files, str]) -> None:
    files, root = place
    files.remove(f"{root}/none")
    files.remove_directory(f"{root}/none")
    files.make_directory(f"{root}/a/b")
    files.replace(f"{root}/a/f", b"1")
    files.remove(f"{root}/a/f")
    assert files.list_names(f"{root}/a") == ["b"]
    files.remove_directory(f"{root}/a")
    assert files.list_names(root) == []


def test_remove_empty_directory_leaves_what_has_something_in_it(place: tuple[Files, str]) -> None:
    files, root = place
    files.remove_empty_directory(f"{root}/none")
    files.make_directory(f"{root}/a/b")
    files.remove_empty_directory(f"{root}/a")
    assert files.exists(f"{root}/a/b")
    files.replace(f"{root}/a/b/f", b"1")
    files.remove_empty_directory(f"{root}/a/b")
    assert content(files, f"{root}/a/b/f") == b"1"
    files.remove(f"{root}/a/b/f")
    files.remove_empty_directory(f"{root}/a/b")
    files.remove_empty_directory(f"{root}/a")
    assert files.list_names(root) == []


def test_make_directory_goes_on_when_another_process_removes_an_empty_one_above_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, sweeps = os.mkdir, [1, 2, 3]

    def make_and_sweep(path: str, mode: int) -> None:
        make(path, mode)
        if sweeps and Path(path).name == "a":
            sweeps.pop()
            OsFiles().remove_empty_directory(path)

    monkeypatch.setattr(os, "mkdir", make_and_sweep)
    OsFiles().make_directory(f"{tmp_path}/a/b")
    assert sweeps == []
    assert (tmp_path / "a" / "b").is_dir()


def test_an_open_file_is_still_read_after_its_removal(place: tuple[Files, str]) -> None:
    files, root = place
    files.replace(f"{root}/f", b"still here")
    file = files.open_read(f"{root}/f")
    assert file is not None
    files.remove(f"{root}/f")
    buffer = memoryview(bytearray(10))
    assert (file.read_into(buffer, 0), bytes(buffer)) == (10, b"still here")
    file.close()


@pytest.mark.parametrize(
    "operation", ["open_write", "make_directory", "remove", "remove_empty_directory", "list_names", "open_read"]
)
def test_operations_translate_what_the_system_refuses(tmp_path: Path, operation: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageError, match="Not a directory"):
        getattr(OsFiles(), operation)(f"{tmp_path}/file/below")


def test_rename_translates_what_the_system_refuses(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot rename a file: No such file"):
        OsFiles().rename(f"{tmp_path}/a", f"{tmp_path}/b")


def test_write_at_goes_on_after_a_short_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, position: write(descriptor, data[:3], position))
    file = OsFiles().open_write(f"{tmp_path}/f")
    file.write_at(b"0123456789", 1)
    file.close()
    assert (tmp_path / "f").read_bytes() == b"\x000123456789"


def test_write_at_translates_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFiles().open_write(f"{tmp_path}/f")
    monkeypatch.setattr(os, "pwrite", fail_with(OSError(errno.ENOSPC, "full")))
    with pytest.raises(StorageError, match=r"No space left on device .*Free space"):
        file.write_at(b"x", 0)
    file.close()


def blocks_bytes(path: Path) -> int:
    return path.stat().st_blocks * 512


def test_a_big_file_has_room_ahead_of_its_end_until_it_is_trimmed(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file = OsFiles().open_write(str(path))
    piece = os.urandom(1 << 20)
    for number in range(3):
        file.write_at(piece, number << 20)
    assert path.stat().st_size == 3 << 20
    assert blocks_bytes(path) > 3 << 20
    file.trim()
    assert blocks_bytes(path) == 3 << 20
    file.write_at(piece, 3 << 20)
    file.trim()
    file.close()
    assert path.read_bytes() == piece * 4
    assert blocks_bytes(path) == 4 << 20


def test_a_small_file_has_no_room_ahead(tmp_path: Path) -> None:
    path = tmp_path / "f"
    file = OsFiles().open_write(str(path))
    file.write_at(bytes(100_000), 0)
    file.sync()
    assert blocks_bytes(path) < 110_000
    file.trim()
    file.close()
    assert path.stat().st_size == 100_000


def test_a_file_is_written_where_no_room_can_be_reserved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(descriptor: int, position: int, size_bytes: int) -> bool:
        asked.append(position)
        return False

    monkeypatch.setattr("headstream.log.system.files.reserve", refuse)
    file = OsFiles().open_write(str(tmp_path / "f"))
    for number in range(100):
        file.write_at(bytes(1 << 20), number << 20)
    file.close()
    assert (tmp_path / "f").stat().st_size == 100 << 20
    assert len(asked) < 12  # not at each write


def test_files_start_writing_each_appended_byte_to_the_disk_once_and_without_gaps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[int, int]] = []

    def start(descriptor: int, position: int, size_bytes: int) -> bool:
        started.append((position, size_bytes))
        return start_writing(descriptor, position, size_bytes)

    monkeypatch.setattr("headstream.log.system.files.start_writing", start)
    file = OsFiles().open_write(str(tmp_path / "f"))
    for number in range(100):
        file.write_at(bytes(1 << 20), number << 20)
    file.write_at(b"again", 3 << 20)
    file.close()
    ends = [position + size_bytes for position, size_bytes in started]
    assert [position for position, _ in started] == [0, *ends[:-1]]
    assert 90 << 20 < ends[-1] < 100 << 20
    assert (tmp_path / "f").stat().st_size == 100 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has it")
def test_start_writing_is_refused_for_what_is_no_file(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    file = OsFiles().open_write(str(tmp_path / "f"))
    file.write_at(b"x" * 10_000, 0)
    descriptor = os.open(tmp_path / "f", os.O_RDWR)
    assert start_writing(descriptor, 0, 10_000)
    assert not start_writing(writing, 0, 1)
    for each in (descriptor, reading, writing):
        os.close(each)
    file.close()
