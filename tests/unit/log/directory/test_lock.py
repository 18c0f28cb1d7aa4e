"""WriterLock: one holder, who is named, and who leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headstream.errors import LogLockedError, StorageError
from headstream.log.directory.lock import WriterLock

HOLDER = """
import sys
from headstream.log.directory.lock import WriterLock
lock = WriterLock(sys.argv[1])
lock.acquire()
print("held", flush=True)
sys.stdin.read()
"""


def test_acquire_is_refused_while_another_process_holds_it_and_free_after_its_death(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with subprocess.Popen([sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        lock = WriterLock(path)
        with pytest.raises(LogLockedError, match=f"process {holder.pid} is writing to this log.*{path}.*stop that process"):
            lock.acquire()
        assert not lock.is_held
        holder.send_signal(signal.SIGKILL)
    lock.acquire()
    assert lock.is_held
    assert Path(path).read_text() == f"{os.getpid()}\n"
    lock.release()
    lock.release()
    assert not lock.is_held


def test_acquire_is_refused_within_one_process_too(tmp_path: Path) -> None:
    first, second = WriterLock(str(tmp_path / "lock")), WriterLock(str(tmp_path / "lock"))
    first.acquire()
    with pytest.raises(LogLockedError, match=f"process {os.getpid()}"):
        second.acquire()
    first.release()
    second.acquire()
    second.release()


def test_acquire_says_another_process_when_its_id_is_not_known(tmp_path: Path) -> None:
    first, second = WriterLock(str(tmp_path / "lock")), WriterLock(str(tmp_path / "lock"))
    first.acquire()
    (tmp_path / "lock").write_text("")
    with pytest.raises(LogLockedError, match="another process is writing"):
        second.acquire()
    first.release()


def test_a_forked_child_does_not_hold_its_parents_lock(tmp_path: Path) -> None:
    lock = WriterLock(str(tmp_path / "lock"))
    lock.acquire()
    ready, done = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        os.write(ready[1], b"1" if lock.is_held else b"0")
        os.read(done[0], 1)
        os._exit(0)
    try:
        assert os.read(ready[0], 1) == b"0"
        lock.release()
        again = WriterLock(str(tmp_path / "lock"))
        again.acquire()  # though the child lives
        again.release()
    finally:
        os.write(done[1], b"1")
        os.waitpid(child, 0)
        for descriptor in (*ready, *done):
            os.close(descriptor)


def test_acquire_translates_what_the_system_refuses(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        WriterLock(str(tmp_path / "none" / "lock")).acquire()
