"""Many clients of one server that do anything in any pieces: each request has the response that it may have."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from headstream.core.model.polling import PollingKind
from headstream.core.wire.commands import messages, permissions, streams, topics, users
from headstream.server.config.tcp_settings import ConnectionLimits, TcpSettings
from tests.behaviour.conformance.scenes import CONSUMER, polled
from tests.support.server.served import Peer, config_of, serving
from tests.support.server.server_clients import LIMITED, Administrator, Client, create_brief, run_to_end
from tests.support.server.server_history import BRIEF, KEPT, PARTITIONS, STREAM, History

LIMITS = ConnectionLimits(unsent_bytes=32 << 10)
"""So that a client that does not take its answers is full soon."""


def prepare(root: Peer) -> None:
    root.ask(streams.CreateStream(0, STREAM))
    root.ask(topics.CreateTopic(STREAM, 0, PARTITIONS, topics.Compression.NONE, topics.NEVER, topics.SERVER_DEFAULT, 0, KEPT))
    root.ask(create_brief())
    rights = permissions.GlobalPermissions(read_topics=True, read_streams=True, poll_messages=True, send_messages=True)
    root.ask(users.CreateUser(*LIMITED, users.UserStatus.ACTIVE, permissions.Permissions(rights)))


def stored(root: Peer, topic: str, partition: int) -> list[bytes]:
    payloads = list[bytes]()
    while True:
        command = messages.PollMessages(CONSUMER, STREAM, topic, partition, PollingKind.OFFSET, len(payloads), 100_000, False)
        found = polled(root.ask(command))
        if not found:
            return payloads
        payloads += [bytes(message.payload or b"") for message in found]


def run_history(
    make_loop: Callable[[], asyncio.AbstractEventLoop], data: Path, seed: int, *, clients: int, steps: int
) -> History:
    """Have clients do anything, and return what has happened; an error says the seed."""
    chance, history = random.Random(seed), History()
    with serving(config_of(data=str(data), tcp=TcpSettings(limits=LIMITS)), make_loop=make_loop) as running:
        with running.peer() as root:
            prepare(root)
        administrator = Administrator(history, 0, chance, running.address)
        everybody: list[Client] = [administrator]
        left = list[Client]()
        try:
            for _ in range(8):  # so that there is a lot to poll from the beginning
                administrator.send(60_000)
            for _ in range(steps):
                while len(everybody) < clients:
                    everybody.append(Client(history, len(everybody) + len(left), chance, running.address))
                chance.choice(everybody).act()
                administrator.act()
                left += [client for client in everybody if client.is_gone]
                everybody = [client for client in everybody if not client.is_gone]
            run_to_end(everybody)
            administrator.settle()
            run_to_end(everybody)
            with running.peer() as root:
                for topic in (KEPT, BRIEF):
                    history.check_stored(topic, {number: stored(root, topic, number) for number in range(1, PARTITIONS + 1)})
        except BaseException as error:
            error.add_note(f"seed {seed}: {history.counts}")
            raise
        finally:
            for client in everybody:
                client.socket.close()
    return history


@pytest.fixture
def idle_after(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Say after how many small requests a connection is the intake's."""
    return lambda count: monkeypatch.setattr("headstream.server.iggy.tcp.reader_switch._SHORT_REQUESTS", count)


@pytest.mark.parametrize("shorts", [1, 8])
def test_each_request_is_answered_once_and_rightly_whatever_others_do(
    make_loop: Callable[[], asyncio.AbstractEventLoop], idle_after: Callable[[int], None], tmp_path: Path, shorts: int
) -> None:
    idle_after(shorts)
    history = run_history(make_loop, tmp_path / "log", seed=shorts, clients=12, steps=600)
    assert all(
        history.counts[name] for name in ("sends answered 0", "polls answered 0", "polls answered 41", "waits answered True")
    )


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 200))
def test_each_request_is_answered_once_and_rightly_for_long(
    make_loop: Callable[[], asyncio.AbstractEventLoop], idle_after: Callable[[int], None], tmp_path: Path, seed: int
) -> None:
    idle_after(seed % 2 * 7 + 1)
    run_history(make_loop, tmp_path / "log", seed, clients=20, steps=10_000)
