"""GroupCommit and IntervalSyncer: who waits for whom before a sync, and when syncs in the background begin and end."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

from headstream.log.partition.syncing import SYNC_INTERVAL_S, GroupCommit, IntervalSyncer
from headstream.log.segments.files import storage_error
from tests.support.crashes import fail_with


class Gathering(threading.Condition):
    """A condition that notes each wait, and says when one has begun; a wait ends when the condition is notified."""

    def __init__(self, lock: threading.Lock, *, is_quiet: bool = False) -> None:
        super().__init__(lock)
        self.waits: list[bool] = []
        self.has_begun = threading.Event()
        self._is_quiet = is_quiet

    def wait(self, timeout: float | None = None) -> bool:
        assert len(self.waits) < 5, "it waits for others again and again"
        self.has_begun.set()
        self.waits.append(not self._is_quiet and super().wait(60))
        return self.waits[-1]


def noted_group(clock: Callable[[], float] = lambda: 0.0, *, is_quiet: bool = True) -> tuple[GroupCommit, Gathering, list[int]]:
    """Return a group whose clock stands still, what its leaders wait for, and the number of the newest send at each sync."""
    synced: list[int] = []

    def sync() -> int:
        synced.append(group._newest)
        return group._newest

    group = GroupCommit(sync, clock)
    group._gathered = gathering = Gathering(group._lock, is_quiet=is_quiet)
    return group, gathering, synced


def test_group_commit_never_waits_for_others_when_alone() -> None:
    group, gathering, synced = noted_group()
    for number in range(1, 4):
        group.wait(number)
    group.wait(2)
    assert (synced, gathering.waits) == ([1, 2, 3], [])


def test_group_commit_waits_for_as_many_senders_as_there_were_and_for_nobody_once_they_are_gone() -> None:
    group, gathering, synced = noted_group(is_quiet=False)
    inner, arrived = group._sync, threading.Event()

    def sync_while_another_writes() -> int:
        second.start()
        assert arrived.wait(60)
        inner()
        return 1

    def write_second() -> None:
        with group._lock:
            group._newest = 2
            arrived.set()
        group.wait(2)

    second = threading.Thread(target=write_second)
    group._sync = sync_while_another_writes
    group.wait(1)
    group._sync = inner
    assert gathering.has_begun.wait(60)
    group.wait(3)  # it arrives while the second one gathers, whose sync then includes it
    second.join()
    assert synced[1:] == [3]
    assert gathering.waits == [True], "the newcomer ended the wait"
    gathering._is_quiet = True
    group.wait(4)
    assert len(gathering.waits) == 2, "there were two senders: it looks for the other one, which is gone"
    group.wait(5)
    assert len(gathering.waits) == 2
    assert synced[1:] == [3, 4, 5]


def test_group_commit_gathers_no_longer_than_its_limit() -> None:
    times = [0.0, 0.0]
    group, gathering, synced = noted_group(lambda: times.pop(0))
    group._expected = 9
    times[:] = [10.0, 10.021]
    group.wait(1)
    assert (synced, gathering.waits) == ([1], [])


def test_interval_syncer_goes_on_after_one_has_failed_and_ends_when_there_is_nothing() -> None:
    syncer, done = IntervalSyncer(0.001), threading.Event()

    syncer.add(fail_with(storage_error(OSError(errno.EIO, "fault"), "sync a file", "p")))
    thread = syncer._thread
    assert thread is not None
    syncer.add(done.set)
    assert done.wait(60)
    thread.join(60)
    assert not thread.is_alive()
    done.clear()
    syncer.add(done.set)
    assert done.wait(60)
    syncer.close()
    last = syncer._thread
    syncer.add(done.set)
    assert syncer._thread is last, "it begins nothing after it was closed"
    assert last is None or not last.is_alive()


def test_interval_syncer_syncs_once_a_second_by_default() -> None:
    assert IntervalSyncer()._interval_s == SYNC_INTERVAL_S == 1.0, "docs/durability.md says so"
