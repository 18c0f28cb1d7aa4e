"""Unit tests of headstream.log.system.linux."""

from __future__ import annotations

from headstream.log.system.linux import open_inotify
from tests.unit.log.directory.test_watcher import places, write

__all__ = ["places"]  # fixtures


def test_inotify_reads_nothing_when_nothing_has_changed(places: list[str]) -> None:
    inotify = open_inotify()
    assert inotify is not None
    watch = inotify.add(places[0])
    assert list(inotify.read()) == []
    write(places[0], "ä.index")
    changes = list(inotify.read())
    assert {(change.watch, change.name, change.has_ended) for change in changes} == {(watch, "ä.index", False)}
    assert inotify.add(f"{places[0]}/missing") is None
    inotify.close()
