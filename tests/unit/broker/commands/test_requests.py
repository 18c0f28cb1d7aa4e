"""Unit tests of headstream.broker.commands.requests."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headstream.broker.commands.messages import begin_wait
from headstream.broker.commands.requests import is_slow
from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message, MessageState
from headstream.core.model.polling import PollingKind
from headstream.core.model.topology import Fsync
from headstream.core.wire.codes import Code
from headstream.core.wire.commands import partitions, sessions, streams, system, topics
from headstream.core.wire.extensions.messages import AppendMessages, FetchMessages, SetState, WaitMessages
from headstream.core.wire.extensions.topic_options import CreateOpenTopic
from headstream.core.wire.records import Command
from headstream.core.wire.vsr.encoding import VSR
from headstream.core.wire.vsr.frames import HEADER_BYTES
from tests.support.server.servers import Peer
from tests.unit.broker.commands.test_epochs import AT, BATCH


def test_wait_calls_once_and_is_ready_when_messages_come_from_another_thread(peer: Peer) -> None:
    called = threading.Semaphore(0)
    wait = begin_wait(peer.dispatcher, peer.session, WaitMessages(*AT, {1: 0, 2: 0}, 1000), called.release)
    assert not wait.is_ready
    other = Peer(peer.dispatcher, peer.session)
    for _ in range(3):
        thread = threading.Thread(target=other.ask, args=[AppendMessages(*AT, 2, BATCH)])
        thread.start()
        thread.join()
    assert called.acquire(timeout=60)
    assert not called.acquire(blocking=False)
    assert wait.is_ready
    wait.cancel()
    peer.ask(AppendMessages(*AT, 1, BATCH))
    assert not called.acquire(blocking=False)


@pytest.mark.parametrize("command", [topics.DeleteTopic(*AT), partitions.DeletePartitions(*AT, 1)])
def test_wait_is_ready_when_what_it_waits_for_goes(peer: Peer, command: Command[Any]) -> None:
    called: list[bool] = []
    wait = begin_wait(peer.dispatcher, peer.session, WaitMessages(*AT, {2: 0}, 1000), lambda: called.append(True))
    peer.ask(command)
    assert (called, wait.is_ready) == ([True], True)


def test_fetch_that_waits_is_ready_when_a_message_in_its_state_comes(peer: Peer) -> None:
    command = FetchMessages(*AT, 1, PollingKind.OFFSET, 0, 10, states=(MessageState.POISONED.value,), timeout_ms=1000)
    wait = begin_wait(peer.dispatcher, peer.session, command, lambda: None)
    peer.ask(AppendMessages(*AT, 1, BATCH))
    assert not wait.is_ready
    peer.ask(SetState(*AT, 1, (0,), MessageState.POISONED.value, ""))
    assert wait.is_ready


def test_wait_answers_what_is_there_now_when_asked_like_any_command(peer: Peer) -> None:
    assert not peer.ask(WaitMessages(*AT, {1: 0}, 1000)).is_woken
    peer.ask(AppendMessages(*AT, 1, BATCH))
    assert [peer.ask(WaitMessages(*AT, {1: offset}, 1000)).is_woken for offset in (0, 2)] == [True, False]
    assert peer.status(WaitMessages(*AT, {3: 0}, 1000)) == 3007


def test_request_is_slow_when_it_changes_what_there_is_or_waits_for_a_disk(peer: Peer) -> None:
    server = peer.dispatcher
    peer.ask(CreateOpenTopic("shop", "synced", 1, fsync=Fsync.ALWAYS))
    slow: list[Command[Any]] = [
        streams.CreateStream(0, "other"),
        topics.CreateTopic("shop", 0, 1, topics.Compression.NONE, 0, 0, 0, "other"),
        system.GetStats(),
        AppendMessages("shop", "synced", 1, BATCH),
        AppendMessages(*AT, 1, encode_sent([Message(payload=b"x" * 1_000_000)])),
    ]
    quick: list[Command[Any]] = [AppendMessages(*AT, 1, BATCH), FetchMessages(*AT, 1, PollingKind.FIRST, 0, 10)]
    assert [is_slow(server, peer.session, each.code, memoryview(each.encode())) for each in slow] == [True] * 5
    assert [is_slow(server, peer.session, each.code, memoryview(each.encode())) for each in quick] == [False] * 2
    cut = memoryview(bytes(HEADER_BYTES + 4) + AppendMessages("shop", "synced", 1, b"").encode())  # only the topic is read
    assert is_slow(server, peer.session, Code.SEND_MESSAGES, cut, VSR)
    unknown = server.sessions.open("127.0.0.1:1")
    assert [is_slow(server, unknown, each.code, memoryview(each.encode())) for each in slow] == [False] * 5
    login = sessions.Login("iggy", "iggy")
    assert is_slow(server, unknown, login.code, memoryview(login.encode()))
