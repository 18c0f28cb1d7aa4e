"""Unit tests of headstream.log.opening."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headstream.core.model.polling import OffsetOwner
from headstream.errors import ClosedError, CorruptLogError, InvalidOptionError, LogLockedError, NotALogError
from headstream.log.log import Log
from headstream.log.opening import close_log, open_directory, open_memory
from headstream.log.system.files import OsFiles
from tests.support.log.logs import SEED, batch, payloads
from tests.unit.log.test_log import make_topic, read


def test_looking_at_a_missing_directory_makes_nothing(tmp_path: Path) -> None:
    log = open_directory(str(tmp_path / "log"))
    assert log.snapshot() == {}
    assert log.identity is None
    assert not log.is_writer
    close_log(log)
    assert not (tmp_path / "log").exists()


def test_open_directory_shares_one_log_in_a_process(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "log")
    first, second = open_directory(str(tmp_path / "log")), open_directory(str(tmp_path / "link"))
    assert first is second
    topic = make_topic(first)
    close_log(first)
    assert second.append(topic, 1, batch(b"x"), 1, SEED).offset == 0
    close_log(second)
    with pytest.raises(ClosedError, match="the log is closed"):
        second.append(topic, 1, batch(b"x"), 1, SEED)
    third = open_directory(str(tmp_path / "log"))
    assert third is not first
    close_log(third)


def test_open_directory_refuses_another_segment_size_while_it_is_open(tmp_path: Path) -> None:
    log = open_directory(str(tmp_path), 5000)
    assert open_directory(str(tmp_path)).segment_bytes == 5000
    with pytest.raises(InvalidOptionError, match="segment_bytes is 6000, but this process already has the log open with 5000"):
        open_directory(str(tmp_path), 6000)
    close_log(log)
    close_log(log)


def test_open_memory_shares_by_name(tmp_path: Path) -> None:
    named, again, other, private = open_memory("a"), open_memory("a"), open_memory("b"), open_memory()
    assert named is again
    assert len({id(named), id(other), id(private), id(open_memory())}) == 4
    topic = make_topic(named)
    close_log(named)
    again.append(topic, 1, batch(b"x"), 1, SEED)
    assert payloads(read(again, topic)) == [b"x"]
    close_log(again)
    assert open_memory("a").snapshot() == {}


def test_a_second_writer_is_refused_but_reads_and_commits(tmp_path: Path) -> None:
    log = open_directory(str(tmp_path))
    topic = make_topic(log)
    log.append(topic, 1, batch(b"x"), 1, SEED)
    other = Log(log.root, OsFiles(), is_memory=False, segment_bytes=1 << 20)  # as another process has it
    assert payloads(read(other, other.snapshot()["shop"].topics["orders"])) == [b"x"]
    other.offsets(topic).commit(OffsetOwner.group("g"), 1, 1, 5)
    assert log.offsets(topic).committed(OffsetOwner.group("g"), 1) == 1
    with pytest.raises(LogLockedError, match=f"process {os.getpid()} is writing"):
        other.start_writing("x", 1)
    assert not other.is_writer
    close_log(log)
    other.start_writing("x", 1)
    assert other.append(topic, 1, batch(b"y"), 1, SEED).offset == 1
    other.close()
    other.close()


def test_a_directory_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text("1,2")
    with pytest.raises(NotALogError):
        open_directory(str(tmp_path))
    log = open_directory(str(tmp_path / "later"))
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "data.csv").write_text("1,2")
    with pytest.raises(NotALogError):
        log.start_writing("x", 1)
    assert [path.name for path in (tmp_path / "later").iterdir()] == ["data.csv"]
    close_log(log)


def test_a_log_without_its_catalog_is_refused(tmp_path: Path) -> None:
    log = open_directory(str(tmp_path))
    make_topic(log)
    close_log(log)
    (tmp_path / "catalog.sqlite").unlink()
    log = open_directory(str(tmp_path))
    for look in (log.snapshot, lambda: log.start_writing("x", 1)):
        with pytest.raises(CorruptLogError, match=r"catalog is missing .*catalog\.sqlite"):
            look()
    close_log(log)
    assert not (tmp_path / "catalog.sqlite").exists()


def test_a_forked_child_opens_its_own(tmp_path: Path) -> None:
    log = open_directory(str(tmp_path))
    topic = make_topic(log)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            try:
                log.append(topic, 1, batch(b"child"), 1, SEED)
            except ClosedError as error:
                code = 0 if "before this process was forked" in str(error) else 2
            mine = open_directory(str(tmp_path))
            if mine is log or list(mine.snapshot()) != ["shop"]:
                code = 3
            try:
                mine.start_writing("x", 1)
                code = 4
            except LogLockedError:
                pass
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert log.append(topic, 1, batch(b"parent"), 1, SEED).offset == 0
    close_log(log)
