"""The inbox: a manifest that can never be appended, or not just now, stops no other."""

from __future__ import annotations

import errno
import json
from dataclasses import replace
from pathlib import Path

import pytest

from headstream.core.codec.batch.stored.scan import crc32c
from headstream.errors import InvalidInputError, StorageError
from headstream.log.segments.files import OsReadFile, storage_error
from headstream.log.segments.layout import INBOX_NAME
from headstream.log.system.files import OsFiles
from tests.support.log.staged import (
    BOTH,
    ORDERS,
    ROWS,
    begin,
    commit,
    contents,
    is_swept,
    make_log,
    make_staged,
    manifest_of,
    open_log,
    stage,
    take_in,
)


def test_manifest_that_names_partition_0_is_refused_and_the_next_commit_is_appended(tmp_path: Path) -> None:
    good = make_staged(tmp_path)
    part = stage(tmp_path, "mad", 1, "0", ROWS)
    bad = replace(part, chunks=tuple(replace(chunk, partition=0) for chunk in part.chunks))
    begin(tmp_path, manifest_of("mad", 1, bad))
    commit(tmp_path, good)
    assert contents(tmp_path) == BOTH
    assert is_swept(tmp_path)
    with pytest.raises(InvalidInputError, match="has no partition 0"):
        commit(tmp_path, manifest_of("mad", 2, replace(stage(tmp_path, "mad", 2, "0", ROWS), chunks=bad.chunks)))
    assert is_swept(tmp_path)


def encode_members(**members: object) -> bytes:
    known = {"writer": "mad", "epoch": 1, "identity": "identity", "limits": {}, "parts": []}
    body = json.dumps(known | members)
    return json.dumps({"check": crc32c(body.encode()), "manifest": body}).encode()


CHUNK = {"topic": ORDERS, "partition": 1, "size_bytes": 1, "count": 1, "crc32c": 0}


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"", "damaged"),
        (encode_members(epoch="one"), "damaged"),
        (encode_members(epoch=-1), "damaged"),
        (encode_members(epoch=1 << 63), "damaged"),
        (encode_members(writer=".."), "damaged"),
        (encode_members(writer=None), "damaged"),
        (encode_members(parts=[{"name": "../0", "chunks": []}]), "damaged"),
        (encode_members(parts=[{"name": "0", "chunks": [CHUNK | {"partition": "1"}]}]), "damaged"),
        (encode_members(parts=[{"name": "0", "chunks": [CHUNK | {"size_bytes": -1}]}]), "damaged"),
        (encode_members(writer="other"), "misnamed"),
        (None, "unreadable"),  # a directory
    ],
)
def test_manifest_is_set_aside_under_a_name_that_says_why_when_it_can_never_be_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None, name: str
) -> None:
    good = make_staged(tmp_path)
    path = tmp_path / INBOX_NAME / "mad-1.json"
    path.parent.mkdir()
    if content is None:
        path.mkdir()
    else:
        path.write_bytes(content)
    commit(tmp_path, good)
    assert contents(tmp_path) == BOTH
    assert [each.name for each in path.parent.iterdir()] == [f"mad-1.taken.{name}"]
    assert f"a staged commit's manifest was renamed to {path.parent}/mad-1.taken.{name}: " in caplog.text


@pytest.mark.parametrize("parts", [[{"name": "0", "chunks": [CHUNK | {"topic": "a/b/c"}]}], [{"name": "0", "chunks": [CHUNK]}]])
def test_manifest_whose_topic_or_files_are_not_there_is_refused_and_stops_no_other(tmp_path: Path, parts: object) -> None:
    good = make_staged(tmp_path)
    path = tmp_path / INBOX_NAME / "mad-1.json"
    path.parent.mkdir()
    path.write_bytes(encode_members(parts=parts))
    commit(tmp_path, good)
    assert contents(tmp_path) == BOTH
    assert is_swept(tmp_path)


class UnreadableFiles(OsFiles):
    """A file system in which one manifest cannot be opened as long as `error` is set."""

    def __init__(self, error: OSError, name: str = "mad-1.taken") -> None:
        self.error: OSError | None = error
        self.name = name

    def open_read(self, path: str) -> OsReadFile | None:
        if self.error is not None and path.endswith(f"/{self.name}"):
            raise storage_error(self.error, "open a file", path) from self.error
        return super().open_read(path)


@pytest.mark.parametrize("code", [errno.EIO, errno.EMFILE, errno.EACCES])
def test_manifest_that_cannot_be_read_now_is_appended_later_and_stops_no_other(tmp_path: Path, code: int) -> None:
    good = make_staged(tmp_path)
    begin(tmp_path, manifest_of("mad", 1, stage(tmp_path, "mad", 1, "0", {(ORDERS, 2): [b"x"]})))
    begin(tmp_path, good)
    log = open_log(tmp_path, files := UnreadableFiles(OSError(code, "injected")))
    log.start_writing("identity", 1, briefly=True)
    with pytest.raises(StorageError, match="cannot open a file"):
        log.commits.append_submitted()
    assert contents(tmp_path) == BOTH
    files.error = None
    log.commits.append_submitted()
    log.close()
    assert contents(tmp_path)[ORDERS, 2] == [b"c", b"x"]
    assert is_swept(tmp_path)


def test_later_epoch_waits_when_the_manifest_of_an_earlier_epoch_cannot_be_read_now(tmp_path: Path) -> None:
    make_log(tmp_path, {ORDERS: 1})
    for epoch, payload in ((9, b"a"), (10, b"b")):  # by name, 10 precedes 9
        begin(tmp_path, manifest_of("mad", epoch, stage(tmp_path, "mad", epoch, "0", {(ORDERS, 1): [payload]})))
    log = open_log(tmp_path, files := UnreadableFiles(OSError(errno.EIO, "injected"), "mad-9.taken"))
    log.start_writing("identity", 1, briefly=True)
    with pytest.raises(StorageError, match="cannot open a file"):
        log.commits.append_submitted()
    assert contents(tmp_path) == {}
    files.error = None
    log.commits.append_submitted()
    log.close()
    assert contents(tmp_path) == {(ORDERS, 1): [b"a", b"b"]}
    assert is_swept(tmp_path)


class RefusingFiles(OsFiles):
    """A file system that refuses to sync what one writer has staged, or to sync one partition."""

    def __init__(self, name: str) -> None:
        self.name = name

    def sync_directory(self, path: str) -> None:
        if self.name in path:
            raise StorageError("refused", where=path)


def test_commit_is_appended_when_that_of_another_writer_before_it_cannot_be_just_now(tmp_path: Path) -> None:
    good = make_staged(tmp_path)
    begin(tmp_path, manifest_of("a", 1, stage(tmp_path, "a", 1, "0", {(ORDERS, 2): [b"x"]})))
    begin(tmp_path, good)
    log = open_log(tmp_path, RefusingFiles("staged/a/"))
    log.start_writing("identity", 1)
    with pytest.raises(StorageError, match="refused"):
        log.commits.append_submitted()
    log.close()
    assert contents(tmp_path) == BOTH
    take_in(log := open_log(tmp_path))
    log.close()
    assert contents(tmp_path)[ORDERS, 2] == [b"c", b"x"]
    assert is_swept(tmp_path)


def test_partition_of_an_unfinished_commit_takes_no_other_commit_until_it_is_finished(tmp_path: Path) -> None:
    make_log(tmp_path, {ORDERS: 2})
    begin(tmp_path, manifest_of("a", 1, stage(tmp_path, "a", 1, "0", {(ORDERS, 1): [b"a", b"b"]})))
    begin(tmp_path, manifest_of("b", 1, stage(tmp_path, "b", 1, "0", {(ORDERS, 1): [b"c"]})))
    begin(tmp_path, manifest_of("a", 2, stage(tmp_path, "a", 2, "0", {(ORDERS, 2): [b"e"]})))  # behind its writer's epoch 1
    begin(tmp_path, manifest_of("c", 1, stage(tmp_path, "c", 1, "0", {(ORDERS, 2): [b"d"]})))
    directory = open_log(tmp_path).snapshot()["shop"].topics["orders"]
    log = open_log(tmp_path, files := RefusingFiles("nothing"))
    log.start_writing("identity", 1)
    files.name = f"{log.partition_directory(directory, 1)}"
    with pytest.raises(StorageError):
        log.commits.append_submitted()
    assert log.written_end(directory, 2) == 1  # what is of other partitions was appended
    log.close()
    take_in(log := open_log(tmp_path))
    log.close()
    assert contents(tmp_path) == {(ORDERS, 1): [b"a", b"b", b"c"], (ORDERS, 2): [b"d", b"e"]}
    assert is_swept(tmp_path)
