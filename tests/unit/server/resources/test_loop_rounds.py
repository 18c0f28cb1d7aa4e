"""LoopRounds: which polls of a round are answered, how much they bring, and how much of long requests is read."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from headstream.broker.accounts.sessions import Session
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.server.resources.loop_rounds import ROUND_BYTES, ConnectionPolls, LoopRounds
from headstream.server.resources.memory_budget import MemoryBudget

_HEAD_BYTES = 64
"""A message over TCP has so many bytes besides its payload, and those of its headers."""


class Round:
    """Connections of one server, each of another user."""

    def __init__(self) -> None:
        self.rounds = LoopRounds()
        self._budget = MemoryBudget(1 << 32)
        self._users = 0

    def open(self) -> ConnectionPolls:
        """Return the polls of a new connection."""
        self._users += 1
        return ConnectionPolls(self.rounds, self._budget.open(self._users))

    @staticmethod
    def poll(polls: ConnectionPolls, size_bytes: int) -> bool:
        """Ask for messages of so many bytes, and return whether that was answered."""
        is_answered = polls.begin(Session.over_http("127.0.0.1"), is_alone=False)
        if is_answered:
            polls.end(size_bytes)
        return is_answered


def in_loop(check: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(check())


def test_polls_of_many_readers_are_answered_one_a_round_when_each_brings_a_turn() -> None:
    async def check() -> None:
        round_ = Round()
        readers = [round_.open() for _ in range(4)]
        for _ in range(2):
            assert [round_.poll(reader, ROUND_BYTES) for reader in readers] == [True, False, False, False]
            await asyncio.sleep(0)

    in_loop(check)


def test_polls_of_a_million_bytes_are_answered_one_a_round() -> None:
    async def check() -> None:
        round_ = Round()
        readers = [round_.open() for _ in range(3)]
        assert [round_.poll(reader, 1_000_000) for reader in readers] == [True, False, False]
        await asyncio.sleep(0)
        assert [round_.poll(reader, 300_000) for reader in readers] == [True, True, True]

    in_loop(check)


def test_polls_of_a_consumer_that_keeps_up_are_answered_when_others_have_read_a_turn() -> None:
    async def check() -> None:
        round_ = Round()
        consumer, readers = round_.open(), [round_.open() for _ in range(3)]
        assert round_.poll(consumer, 100)
        assert round_.poll(readers[0], ROUND_BYTES)
        assert [round_.poll(consumer, 100) for _ in range(5)] == [True] * 5
        assert not round_.poll(readers[1], ROUND_BYTES)

    in_loop(check)


def test_polls_that_looked_small_wait_when_some_of_them_have_brought_a_second_turn() -> None:
    async def check() -> None:
        round_ = Round()
        readers = [round_.open() for _ in range(50)]
        for reader in readers:
            assert round_.poll(reader, 100)
        answered = [round_.poll(reader, ROUND_BYTES) for reader in readers]
        assert answered == [True, True] + [False] * 48

    in_loop(check)


def test_polls_bring_a_thousand_messages_of_a_thousand_bytes_when_others_are_connected() -> None:
    async def check() -> None:
        polls, session = Round().open(), Session.over_http("127.0.0.1")
        assert polls.begin(session, is_alone=False)
        assert session.poll_bytes >= 1000 * (1000 + _HEAD_BYTES)

    in_loop(check)


def test_polls_return_up_to_a_whole_batch_when_a_client_is_alone() -> None:
    async def check() -> None:
        round_ = Round()
        polls, session = round_.open(), Session.over_http("127.0.0.1")
        round_.rounds.note(10 * ROUND_BYTES)
        assert polls.begin(session, is_alone=True)
        assert session.poll_bytes >= MAX_BATCH_BYTES

    in_loop(check)


def test_long_requests_of_many_connections_are_read_a_few_a_round_in_their_order() -> None:
    read_bytes = 256 << 10

    async def check() -> None:
        rounds, read, read_until = LoopRounds(), list[int](), list[int]()
        for number in range(10):
            rounds.call_with_capacity(read_bytes, partial(read.append, number))
        while len(read) < 10:
            await asyncio.sleep(0)
            read_until.append(len(read))
        assert read == list(range(10))
        read_in_a_round = [after - before for before, after in itertools.pairwise([0, *read_until])]
        assert max(read_in_a_round) * read_bytes <= ROUND_BYTES

    in_loop(check)


def test_polls_wait_for_a_round_in_which_less_was_read() -> None:
    async def check() -> None:
        round_ = Round()
        polls = round_.open()
        for _ in range(3):
            round_.rounds.call_with_capacity(256 << 10, lambda: None)
        await asyncio.sleep(0)
        assert not polls.begin(Session.over_http("127.0.0.1"), is_alone=False)
        await asyncio.sleep(0)
        assert polls.begin(Session.over_http("127.0.0.1"), is_alone=False)

    in_loop(check)
