"""Waiters and DirectoryWatcher: appends of any process wake the waiters, and cost nothing without waiters."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from headstream.log.directory.waiters import Waiters
from headstream.log.directory.watcher import DirectoryWatcher
from headstream.log.system.linux import Inotify

LONG = 10.0


@pytest.fixture
def places(tmp_path: Path) -> list[str]:
    paths = [tmp_path / name for name in ("1", "2", "3")]
    for path in paths:
        path.mkdir()
    return [str(path) for path in paths]


@pytest.fixture
def waiting() -> Waiters:
    return Waiters()


def write(directory: str, name: str = "0.index") -> None:
    with (Path(directory) / name).open("ab") as file:
        file.write(b"entry")


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headstream-watch"]


def test_watching_tells_of_an_index_that_is_written(waiting: Waiters, places: list[str]) -> None:
    watching = DirectoryWatcher(waiting)
    with waiting.waiter(places) as waiter:
        assert watching.watch(places)
        write(places[1])
        assert waiter.listen(LONG) == {places[1]}
    watching.close()


def test_watching_tells_nothing_of_data_without_its_entry(waiting: Waiters, places: list[str]) -> None:
    watching = DirectoryWatcher(waiting)
    with waiting.waiter(places) as waiter:
        watching.watch(places)
        write(places[0], "0.log")
        write(places[1])
        assert waiter.listen(LONG) == {places[1]}
    watching.close()


def test_watching_tells_that_a_directory_has_gone(waiting: Waiters, places: list[str]) -> None:
    watching = DirectoryWatcher(waiting)
    with waiting.waiter(places) as waiter:
        watching.watch(places)
        Path(places[2]).rmdir()
        assert waiter.listen(LONG) == {places[2]}
        assert watching.count == 2
        assert not watching.watch(places)  # it is not there
    watching.close()


def test_watching_ends_a_watch_when_something_comes_that_nobody_waits_for(waiting: Waiters, places: list[str]) -> None:
    watching = DirectoryWatcher(waiting)
    with waiting.waiter(places):
        watching.watch(places)
    with waiting.waiter(places[1:]) as waiter:
        write(places[0])
        write(places[1])
        assert waiter.listen(LONG) == {places[1]}
        assert watching.count == 2
    with waiting.waiter(places) as waiter:
        assert watching.watch(places)
        write(places[0])
        notified: set[str] = set()
        while places[0] not in notified:  # word of the last write to the other place may come late
            found = waiter.listen(LONG)
            assert found
            notified |= found
    watching.close()


def test_watching_gives_up_what_nobody_waits_for_when_there_are_too_many(waiting: Waiters, places: list[str]) -> None:
    watching = DirectoryWatcher(waiting, max_watches=2)
    with waiting.waiter(places[:2]):
        assert watching.watch(places[:2])
        with waiting.waiter(places[2:]):
            assert not watching.watch(places[2:])
    with waiting.waiter(places[2:]) as waiter:
        assert watching.watch(places[2:])
        write(places[2])
        assert waiter.listen(LONG) == {places[2]}
    watching.close()


def test_watching_says_so_where_there_is_no_inotify(waiting: Waiters, places: list[str]) -> None:
    asked: list[None] = []

    def open_none() -> Inotify | None:
        return asked.append(None)  # type: ignore[func-returns-value]

    watching = DirectoryWatcher(waiting, open_none)
    assert not watching.watch(places)
    assert not watching.watch(places)
    assert len(asked) == 1
    watching.close()


def test_watching_has_one_thread_from_its_first_use_until_it_is_closed(waiting: Waiters, places: list[str]) -> None:
    before = len(threads())
    open_files = len(list(Path("/proc/self/fd").iterdir()))
    watching = DirectoryWatcher(waiting)
    assert len(threads()) == before
    with waiting.waiter(places):
        watching.watch(places)
        watching.watch(places)
    assert len(threads()) == before + 1
    watching.close()
    watching.close()
    assert len(threads()) == before
    assert not watching.watch(places)
    assert len(list(Path("/proc/self/fd").iterdir())) == open_files
