"""Unit tests of headstream.client.worker."""

from __future__ import annotations

import asyncio
import time

import pytest

import headstream as hs
from headstream.core.wire.extensions.groups import (
    CommitOffsets,
    CommittedOffsets,
    ListOffsets,
)
from headstream.core.wire.extensions.messages import FetchMessages
from headstream.core.wire.extensions.topics import GetOpenTopic, ListOpenTopics
from tests.support.messages.batches import stored
from tests.support.server.scripted_server import SILENCE, ScriptedServer
from tests.unit.client.transports.remote.test_caller import Script, fetched, topic_of


def test_an_awaited_call_that_is_cancelled_does_not_wait_for_a_silent_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstream.client.worker._CANCEL_TIMEOUT_S", 0.01)

    async def body(url: str) -> None:
        async with hs.connect_async(url) as log:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(log.topics(), 0.05)
            assert len(await log.topics()) == 0

    script = Script(ListOpenTopics, SILENCE, ())
    with ScriptedServer(script) as server:
        began_s = time.monotonic()
        asyncio.run(body(server.url + "?timeout_ms=60000"))
        assert time.monotonic() - began_s < 30  # of the minute that an answer may take
        assert len(server.commands) == 2  # it was not asked again behind the caller's back


def test_an_event_loop_is_not_held_up_by_a_commit_between_two_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstream.client.worker._CANCEL_TIMEOUT_S", 0.01)
    both = fetched(stored(b"0", offset=0), stored(b"1", offset=1), next_offset=2, end_offset=2)
    answers = {ListOffsets: CommittedOffsets({}), FetchMessages: both, CommitOffsets: SILENCE, GetOpenTopic: topic_of()}

    async def body(url: str) -> None:
        async with hs.connect_async(url) as log, log.consumer("shop/orders", name="n") as consumer:
            assert (await anext(consumer)).offset == 0
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(consumer), 0.05)
            await consumer.close(commit=False)

    with ScriptedServer(lambda command: answers.get(type(command))) as server:
        began_s = time.monotonic()
        asyncio.run(body(server.url + "?timeout_ms=60000"))
        assert time.monotonic() - began_s < 30  # of the minute that an answer may take
