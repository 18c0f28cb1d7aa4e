"""GroupLock: one holder, and no file that outlives it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headstream.log.directory.group_lock import GroupLock


def test_release_removes_the_file_when_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "groups" / "1-1-x.lock"
    lock, other = GroupLock(str(path)), GroupLock(str(path))
    assert lock.try_acquire()
    assert (other.try_acquire(), other.holder(), path.read_text()) == (False, os.getpid(), f"{os.getpid()}\n")
    other.release()
    assert path.exists()  # who does not hold it removes nothing
    lock.release()
    lock.release()
    assert (list(path.parent.iterdir()), other.holder()) == ([], None)
    assert other.try_acquire()
    other.release()


def test_try_acquire_locks_the_file_at_the_path_when_the_holder_has_removed_the_one_it_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "1-1-x.lock"
    late, third = GroupLock(str(path)), GroupLock(str(path))
    opens = late._open
    opened: list[int] = []

    def open_before_the_release() -> int:
        descriptor = opens()
        if not opened:
            path.unlink()  # as the holder does between the opening and the locking
        opened.append(descriptor)
        return descriptor

    monkeypatch.setattr(late, "_open", open_before_the_release)
    assert late.try_acquire()
    assert (len(opened), third.try_acquire(), third.holder()) == (2, False, os.getpid())
    late.release()


def test_the_lock_of_a_group_is_released_when_nobody_refers_to_it(tmp_path: Path) -> None:
    path = tmp_path / "1-1-x.lock"
    lock = GroupLock(str(path))
    assert lock.try_acquire()
    del lock
    assert not path.exists()


def test_a_forked_child_leaves_the_file_to_its_parent_when_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "1-1-x.lock"
    lock, other = GroupLock(str(path)), GroupLock(str(path))
    assert lock.try_acquire()
    child = os.fork()
    if not child:
        lock.release()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (path.exists(), other.try_acquire()) == (True, False)
    lock.release()
