"""The bounds of the memory budget to the byte: what fits, what does not, and who is called when memory is freed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headstream.core.wire.statuses import Status
from headstream.server.resources import memory_budget
from headstream.server.resources.memory_budget import UNAUTHENTICATED_BYTES, WAIT_S, MemoryBudget, default_budget_bytes

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TOTAL = 16 * MIB
SMALL = 64 * KIB


def held(total_bytes: int, of_users: dict[int | str, int]) -> MemoryBudget:
    """Return a budget of which clients hold so many bytes, whatever is allowed."""
    budget = MemoryBudget(total_bytes)
    for client, size_bytes in of_users.items():
        budget.change(client, size_bytes)
    return budget


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


@pytest.mark.parametrize(
    ("machine_bytes", "limits", "expected"),
    [
        (8 * GIB, (), 2 * GIB),
        (8 * GIB, ("max",), 2 * GIB),
        (8 * GIB, (str(4 * GIB),), GIB),
        (8 * GIB, ("max", str(2 * GIB)), GIB // 2),
        (8 * GIB, (str(16 * GIB),), 2 * GIB),
        (4 * 64 * MIB - 1, (), 64 * MIB),
        (4 * 65 * MIB, (), 65 * MIB),
    ],
)
def test_default_budget_is_a_quarter_of_what_the_process_may_use(
    machine_bytes: int, limits: tuple[str, ...], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [tmp_path / "missing"]
    for number, limit in enumerate(limits):
        paths.append(tmp_path / str(number))
        paths[-1].write_text(f"{limit}\n")
    monkeypatch.setattr(memory_budget, "_CGROUP_LIMITS", tuple(map(str, paths)))
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=machine_bytes))
    assert default_budget_bytes() == expected


def test_default_budget_is_1_gib_when_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "_CGROUP_LIMITS", ())
    monkeypatch.setitem(sys.modules, "psutil", None)
    assert default_budget_bytes() == GIB


@pytest.mark.parametrize(
    ("of_users", "client", "more_bytes", "all_bytes", "expected"),
    [
        ({}, 1, TOTAL, TOTAL, True),  # one request alone may have all
        ({}, 1, TOTAL + 1, TOTAL + 1, False),
        ({2: 10 * MIB}, 1, 6 * MIB, 6 * MIB, True),
        ({2: 10 * MIB}, 1, 6 * MIB + 1, 6 * MIB + 1, False),
        ({1: 3 * MIB}, 1, 5 * MIB, 5 * MIB, True),  # half of it for several requests of one user
        ({1: 3 * MIB}, 1, 5 * MIB + 1, 5 * MIB + 1, False),
        ({1: 3 * MIB}, 1, 7 * MIB, 10 * MIB, True),  # the same request goes on: it is alone
        ({1: 3 * MIB}, 2, 9 * MIB, 9 * MIB, True),
        ({1: 9 * MIB}, 1, SMALL, SMALL, True),  # small requests of a user that has its half
        ({1: 9 * MIB}, 1, SMALL + 1, SMALL + 1, False),
        ({1: TOTAL}, 2, SMALL, SMALL, True),  # the reserve
        ({1: TOTAL}, 2, SMALL + 1, SMALL + 1, False),
        ({1: TOTAL}, 2, SMALL, SMALL + 1, False),
        ({1: TOTAL + 2 * MIB - SMALL}, 2, SMALL, SMALL, True),
        ({1: TOTAL + 2 * MIB - SMALL + 1}, 2, SMALL, SMALL, False),
        ({"10.0.0.1": MIB - 4096}, "10.0.0.2", 4096, 4096, True),  # who has not logged in shares a sixteenth
        ({"10.0.0.1": MIB - 4096}, "10.0.0.2", 4097, 4097, False),
        ({1: MIB}, "10.0.0.2", 4096, 4096, True),
    ],
)
def test_may_hold_allows_as_many_bytes_as_the_budget_has_and_none_more(
    of_users: dict[int | str, int], client: int | str, more_bytes: int, all_bytes: int, expected: bool
) -> None:
    assert held(TOTAL, of_users).may_hold(client, more_bytes, all_bytes) is expected


def test_budget_says_how_much_of_it_is_taken() -> None:
    def told(held_bytes: int) -> tuple[int, bool, bool, bool]:
        budget = held(TOTAL, {1: held_bytes})
        return budget.free_bytes, budget.is_in_use, budget.is_tight, budget.is_full

    assert told(2 * MIB) == (14 * MIB, False, False, False)
    assert told(2 * MIB + 1) == (14 * MIB - 1, True, False, False)
    assert told(12 * MIB) == (4 * MIB, True, False, False)
    assert told(12 * MIB + 1) == (4 * MIB - 1, True, True, False)
    assert told(TOTAL - 1) == (1, True, True, False)
    assert told(TOTAL) == told(TOTAL + 5) == (0, True, True, True)


@pytest.mark.parametrize(
    ("of_users", "client", "expected"),
    [
        ({}, 1, 2 * MIB),  # a quarter of a user's half
        ({1: 4 * MIB}, 1, MIB),
        ({2: 12 * MIB}, 1, MIB),  # a quarter of what is left of all
        ({1: 8 * MIB - 1}, 1, 256 * KIB),
        ({1: 8 * MIB}, 1, 0),
        ({2: TOTAL}, 1, 256 * KIB),  # out of the reserve
        ({2: TOTAL - MIB, 1: MIB - 1}, 1, 256 * KIB),
        ({2: TOTAL - 1, 1: MIB}, 1, 0),
        ({2: TOTAL + 2 * MIB - 1}, 1, 256 * KIB),
        ({2: TOTAL + 2 * MIB}, 1, 0),
        ({"a": 4 * MIB}, "b", MIB),
        ({"a": 8 * MIB}, "b", 0),
        ({1: 8 * MIB}, "b", 2 * MIB),
    ],
)
def test_polls_bring_a_part_of_what_their_user_may_hold(of_users: dict[int | str, int], client: int | str, expected: int) -> None:
    budget = held(TOTAL, of_users)
    assert budget.poll_bytes(client) == expected == budget.open(client).poll_bytes


def test_relief_comes_after_64_mib_when_an_eighth_is_left() -> None:
    async def check() -> None:
        for peak_bytes, left_bytes, is_relief in (
            (64 * MIB - 1, 0, False),
            (64 * MIB, 0, True),
            (64 * MIB, 8 * MIB, True),
            (64 * MIB, 8 * MIB + 1, False),
        ):
            budget = held(GIB, {1: peak_bytes})
            assert not budget.take_relief()
            budget.change(1, left_bytes - peak_bytes)
            assert [budget.take_relief(), budget.take_relief()] == [is_relief, False]
            budget.change(1, 64 * MIB - left_bytes)
            budget.change(1, -64 * MIB)
            assert budget.take_relief(), "and again after the next peak"

    run(check())


def test_busy_counts_and_says_what_to_do() -> None:
    budget = MemoryBudget(TOTAL)
    refusals = [budget.busy() for _ in range(2)]
    assert budget.refused == 2
    assert refusals[0].status == Status.SERVER_BUSY
    assert str(refusals[0]).endswith("Send the request again later, or raise the server's headstream.memory_budget")


def test_waiters_are_called_in_their_order_once_each_time_that_memory_is_freed() -> None:
    async def check() -> None:
        budget, called = MemoryBudget(TOTAL), list[str]()
        holder, first, second, gone = (budget.open(user) for user in (1, 2, 3, 4))
        assert holder.hold_requests(8 * MIB)

        def again() -> None:
            called.append("first")
            first.wait(2.0, again)  # it needs more still

        first.wait(1.0, again)
        second.wait(1.0, lambda: called.append("second"))
        gone.wait(1.0, lambda: called.append("gone"))
        gone.end_wait()
        holder.note_responses(MIB)
        await asyncio.sleep(0)
        assert called == [], "nothing was freed"
        holder.note_responses(0)
        holder.hold_requests(4 * MIB)
        assert called == []
        await asyncio.sleep(0)
        assert called == ["first", "second"], "once, though memory was freed twice"
        await asyncio.sleep(0)
        assert called == ["first", "second"]
        holder.close()
        await asyncio.sleep(0)
        assert called == ["first", "second", "first"]
        assert [account.is_waiting for account in (first, second, gone)] == [True, True, False]

    run(check())


def test_account_has_waited_too_long_since_its_first_wait() -> None:
    account = MemoryBudget(TOTAL).open(1)
    assert WAIT_S == 5.0, "docs/server.md says so"
    assert not account.has_waited_too_long(1e9)
    account.wait(10.0, lambda: None)
    account.wait(14.0, lambda: None)
    assert not account.has_waited_too_long(15.0)
    assert account.has_waited_too_long(15.001)
    account.end_wait()
    assert not account.has_waited_too_long(1e9)


def test_account_counts_requests_and_responses_of_its_client() -> None:
    async def check() -> None:
        budget = MemoryBudget(TOTAL)
        account = budget.open("10.0.0.1")
        assert account.hold_requests(UNAUTHENTICATED_BYTES)
        account.note_responses(100)
        account.note_responses(100)
        assert account.hold_requests(UNAUTHENTICATED_BYTES)
        assert budget.held_bytes == budget._unauthenticated_bytes == UNAUTHENTICATED_BYTES + 100
        account.log_in(7)
        assert (budget.held_bytes, budget._unauthenticated_bytes, budget._of_user) == (
            UNAUTHENTICATED_BYTES + 100,
            0,
            {7: UNAUTHENTICATED_BYTES + 100},
        )
        other = budget.open(7)
        other.note_responses(8 * MIB)
        assert not account.hold_requests(SMALL + 1 - 100), "responses count with its requests"
        assert account.hold_requests(SMALL - 100)
        assert account.hold_requests(10), "less is always taken"
        assert budget.held_bytes == 8 * MIB + 110
        account.wait(1.0, lambda: None)
        account.close()
        assert not account.is_waiting
        assert budget._of_user == {7: 8 * MIB}
        other.close()
        assert (budget.held_bytes, budget._of_user) == (0, {})

    run(check())


def test_account_waits_no_more_when_its_memory_has_come() -> None:
    async def check() -> None:
        budget = MemoryBudget(TOTAL)
        holder, waiting = budget.open(1), budget.open(1)
        assert holder.hold_requests(8 * MIB)
        task = asyncio.create_task(waiting.hold_soon(8 * MIB))
        await asyncio.sleep(0)
        holder.hold_requests(8 * MIB - 1)  # not enough: it waits on
        for _ in range(5):
            await asyncio.sleep(0)
        assert waiting.is_waiting
        assert not task.done()
        holder.close()
        await task
        assert not waiting.is_waiting
        assert (budget.held_bytes, budget.refused) == (8 * MIB, 0)

    run(check())
