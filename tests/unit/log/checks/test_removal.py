"""Removing a log: what goes, what is refused, and what a failure in the middle leaves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import headstream as hs
from headstream.errors import CorruptLogError, LogLockedError, LogVersionError, NotALogError, StorageError
from headstream.log.checks.removal import remove_log
from headstream.log.directory.marker import Marker, write_marker
from headstream.log.system.files import OsFiles


def make_log(root: Path) -> None:
    with hs.connect(root.as_uri()) as client:
        client.create_topic("shop/orders")
        with client.producer("shop/orders") as producer:
            producer.send(b"hello")
    (root / "runtime").mkdir(exist_ok=True)
    (root / "runtime" / "access_tokens.key").write_bytes(b"secret")


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_remove_log_leaves_a_directory_for_a_new_one(tmp_path: Path) -> None:
    for _ in range(2):
        make_log(tmp_path)
        removed = remove_log(str(tmp_path), OsFiles(), ["runtime"])
        assert {"headstream.json", "catalog.sqlite", "streams", "runtime"} <= set(removed)
        assert [path.name for path in tmp_path.iterdir()] == ["headstream.lock"]
    with hs.connect(tmp_path.as_uri()) as client:
        assert client.streams() == []


@pytest.mark.parametrize("name", ["missing", "empty"])
def test_remove_log_removes_nothing_when_there_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    assert remove_log(str(tmp_path / name), OsFiles()) == []
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def with_a_photo(root: Path) -> None:
    make_log(root)
    (root / "photo.jpg").write_bytes(b"me")


def of_others(root: Path) -> None:
    (root / "streams").mkdir()
    (root / "streams" / "river.txt").write_bytes(b"water")


def of_tomorrow(root: Path) -> None:
    write_marker(str(root), OsFiles(), Marker(99, "3b1f", 0))


def with_a_damaged_marker(root: Path) -> None:
    make_log(root)
    (root / "headstream.json").write_bytes(b"?")


@pytest.mark.parametrize(
    ("make", "error", "told"),
    [
        (with_a_photo, NotALogError, r"'photo\.jpg', which is not part of a log: nothing was removed"),
        (of_others, NotALogError, "is not a log: it contains neither"),
        (of_tomorrow, LogVersionError, "99"),
        (with_a_damaged_marker, CorruptLogError, "marker"),
    ],
)
def test_remove_log_leaves_everything_when_it_is_not_a_log_of_ours_alone(
    tmp_path: Path, make: Callable[[Path], None], error: type[Exception], told: str
) -> None:
    make(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(error, match=told):
        remove_log(str(tmp_path), OsFiles(), ["runtime"])
    assert contents(tmp_path) == before


def test_remove_log_leaves_everything_when_another_process_writes(tmp_path: Path) -> None:
    with hs.connect(tmp_path.as_uri()) as writer:
        writer.create_topic("shop/orders")
        with pytest.raises(LogLockedError):
            remove_log(str(tmp_path), OsFiles())
        with writer.producer("shop/orders") as producer:
            producer.send(b"hello")
        assert len(writer.poll("shop/orders", start="first")) == 1


class _FailingFiles(OsFiles):
    """Files of which only so many can be removed."""

    def __init__(self, left: int) -> None:
        self.left = left

    def _count(self, path: str) -> None:
        if not self.left:
            raise StorageError("cannot remove", where=path)
        self.left -= 1

    def remove(self, path: str) -> None:
        self._count(path)
        super().remove(path)

    def remove_directory(self, path: str) -> None:
        self._count(path)
        super().remove_directory(path)


@pytest.mark.parametrize("done", range(11))
def test_remove_log_goes_on_when_it_was_cut_short(tmp_path: Path, done: int) -> None:
    make_log(tmp_path)
    with pytest.raises(StorageError, match="cannot remove"):
        remove_log(str(tmp_path), _FailingFiles(done), ["runtime"])
    remove_log(str(tmp_path), OsFiles(), ["runtime"])
    assert [path.name for path in tmp_path.iterdir()] == ["headstream.lock"]
    with hs.connect(tmp_path.as_uri()) as client:
        assert client.streams() == []
