"""Who may read what a log, its server and its copies leave on the disk, whatever the umask."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import headstream as hs
from headstream.log.checks.backup import Backup
from headstream.log.staged.staging import StagedWriter
from headstream.log.system.files import OsFiles
from headstream.testing.local_server import LocalServer
from tests.support.messages.batches import sent


@pytest.fixture(params=[0o022, 0o000, 0o077], ids=["022", "000", "077"], autouse=True)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes_of(root: Path) -> set[tuple[str, str]]:
    """Return the modes of all directories and files of a log."""
    found = {("directory", f"{root.stat().st_mode & 0o7777:04o}")}
    for path in root.rglob("*"):
        found.add(("directory" if path.is_dir() else "file", f"{path.stat().st_mode & 0o7777:04o}"))
    return found


def use(url: str, **options: str) -> None:
    with hs.connect(url, **options) as log:
        log.create_topic("shop/orders", partitions=2)
        with log.producer("shop/orders") as producer:
            for number in range(10):
                producer.send(b"%d" % number)
        with log.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
            assert len(list(consumer)) == 10
        log.set_state("shop/orders", 1, 0, "poisoned")
        log.purge_topic("shop/orders")


def test_a_log_and_its_copy_are_their_users_alone(tmp_path: Path) -> None:
    root = tmp_path / "new" / "log"
    use(root.as_uri())
    private = {("directory", "0700"), ("file", "0600")}
    assert modes_of(root) == private
    Backup(str(root), str(tmp_path / "copy"), OsFiles()).run(None)
    assert modes_of(tmp_path / "copy") == private


def test_staged_files_are_readable_by_their_user_only(tmp_path: Path) -> None:
    writer = StagedWriter(str(tmp_path / "log"), OsFiles(), "job", 1, "part")
    writer.add("shop/orders", 1, sent(b"x"), 1)
    assert writer.finish() is not None
    assert modes_of(tmp_path / "log") == {("directory", "0700"), ("file", "0600")}


def test_files_of_a_server_are_readable_by_its_user_only(tmp_path: Path) -> None:
    with LocalServer(tmp_path / "log") as server:
        use(server.url)
        assert modes_of(tmp_path / "log") == {("directory", "0700"), ("file", "0600")}


@pytest.mark.parametrize(("access", "expected"), [("read", ("2750", "0640")), ("write", ("2770", "0660"))])
def test_a_log_is_shared_with_a_group_when_it_is_asked_for(tmp_path: Path, access: str, expected: tuple[str, str]) -> None:
    root = tmp_path / "log"
    use(root.as_uri(), group_access=access)
    assert modes_of(root) == {("directory", expected[0]), ("file", expected[1])}
    with hs.connect(root.as_uri()) as log:  # another process, which was not told
        log.create_topic("shop/more")
    assert modes_of(root) == {("directory", expected[0]), ("file", expected[1])}


def test_a_log_that_is_there_is_not_shared_by_an_option(tmp_path: Path) -> None:
    root = tmp_path / "log"
    use(root.as_uri())
    with pytest.raises(hs.InvalidOptionError, match=r"group_access is 'read'.*mode 0700.*chmod 2750"):
        hs.connect(root.as_uri(), group_access="read")
    with pytest.raises(hs.InvalidOptionError, match=r"group_access must be one of none, read, write, not 'all'"):
        hs.connect(root.as_uri(), group_access="all")
