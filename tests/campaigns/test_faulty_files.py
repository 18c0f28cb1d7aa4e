"""The faulty file system: what is seen, and what is left after a kill, a failed sync and a power cut."""

from __future__ import annotations

from contextlib import suppress

import pytest

from headstream.errors import DiskFullError, StorageError
from tests.campaigns.faulty_files import FaultyFile, FaultyFiles, Killed


@pytest.fixture
def files() -> FaultyFiles:
    made = FaultyFiles(1)
    made.make_directory("d")
    return made


def content(files: FaultyFiles, path: str) -> bytes | None:
    file = files.open_read(path)
    if file is None:
        return None
    buffer = bytearray(file.size_bytes())
    file.read_into(memoryview(buffer), 0)
    return bytes(buffer)


def durable(files: FaultyFiles, path: str, data: bytes) -> FaultyFile:
    file = files.open_write(path)
    file.write_at(data, 0)
    file.sync()
    files.sync_directory("d")
    return file


def after_power_cuts(data: bytes, synced: bytes | None) -> set[bytes | None]:
    """Return what is left of a file in many power cuts: of all its bytes, only these were synced."""
    left = set()
    for seed in range(200):
        files = FaultyFiles(seed)
        files.make_directory("d")
        if synced is not None:
            durable(files, "d/f", synced)
        files.open_write("d/f").write_at(data, len(synced or b""))
        files.cut_power()
        left.add(content(files, "d/f"))
    return left


def test_writes_are_seen_at_once_and_outlive_a_kill(files: FaultyFiles) -> None:
    files.open_write("d/f").write_at(b"abc", 2)
    assert content(files, "d/f") == b"\0\0abc"
    files.revive()
    assert content(files, "d/f") == b"\0\0abc"
    assert files.list_names("d") == ["f"]


def test_a_power_cut_keeps_what_was_synced_and_any_part_of_the_rest() -> None:
    left = after_power_cuts(b"later", b"synced")
    assert all(found is not None and found.startswith(b"synced") for found in left)
    assert {b"synced", b"syncedlater", b"synced\0\0\0\0\0"} <= left
    assert len(left) > 5
    never_synced = after_power_cuts(b"later", None)
    assert {None, b"", b"later"} <= never_synced


def test_a_power_cut_keeps_unsynced_writes_in_any_combination() -> None:
    left = set()
    for seed in range(200):
        files = FaultyFiles(seed)
        files.make_directory("d")
        file = durable(files, "d/f", b"......")
        for position, data in enumerate(b"ABC"):
            file.write_at(bytes([data]), 2 * position)
        files.cut_power()
        left.add(content(files, "d/f"))
    assert {b"A.....", b"..B...", b"....C.", b"A...C.", b"A.B.C."} <= left


def test_a_synced_truncation_and_a_synced_rename_stay(files: FaultyFiles) -> None:
    file = durable(files, "d/f", b"abcdef")
    file.truncate(2)
    file.sync()
    files.rename("d/f", "d/g")
    files.sync_directory("d")
    files.cut_power()
    assert (content(files, "d/f"), content(files, "d/g")) == (None, b"ab")


def test_replace_is_all_or_nothing_whenever_the_power_is_cut(files: FaultyFiles) -> None:
    left = set()
    for seed in range(100):
        files = FaultyFiles(seed)
        files.make_directory("d")
        files.replace("d/f", b"old")
        files.killed_in = 1 + seed % 10
        with suppress(Killed):
            files.replace("d/f", b"new")
        files.cut_power()
        left.add(content(files, "d/f"))
    assert left == {b"old", b"new"}


def test_what_a_failed_sync_lost_is_seen_but_never_gets_to_the_disk(files: FaultyFiles) -> None:
    file = durable(files, "d/f", b"....")
    file.write_at(b"lost", 0)
    files.next_sync_fails = True
    with pytest.raises(StorageError, match="cannot sync a file: Input/output error"):
        file.sync()
    assert content(files, "d/f") == b"lost"
    file.sync()
    files.cut_power()
    assert content(files, "d/f") == b"...."


def test_a_full_disk_refuses_to_grow_but_not_to_overwrite(files: FaultyFiles) -> None:
    file = durable(files, "d/f", b"abc")
    files.is_full = True
    with pytest.raises(DiskFullError):
        file.write_at(b"defg", 3)
    found = content(files, "d/f")
    assert found is not None
    assert b"abcdef".startswith(found)
    file.write_at(b"X", 0)
    with pytest.raises(DiskFullError):
        files.open_write("d/g")
    files.end_faults()
    file.write_at(b"defg", 3)
    assert content(files, "d/f") == b"Xbcdefg"


def test_a_killed_process_does_nothing_more_until_another_takes_its_place(files: FaultyFiles) -> None:
    file = files.open_write("d/f")
    files.killed_in = 2
    file.write_at(b"a", 0)
    for _ in range(2):
        with pytest.raises(Killed):
            file.write_at(b"bc", 1)
    with pytest.raises(Killed):
        files.list_names("d")
    files.revive()
    assert content(files, "d/f") in (b"a", b"ab", b"abc")
    file.write_at(b"d", 1)
