"""The budget of bytes in hand: who may hold how much, who waits, and who is refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.messages import PollMessages, SendMessages
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.commands.streams import CreateStream
from headstream.core.wire.extensions.producers import AppendNumbered, InitProducer
from headstream.core.wire.frames import encode_request, request_head
from headstream.core.wire.refusals import decode_refusal
from headstream.core.wire.statuses import Status
from headstream.errors import ServerUnreachableError
from headstream.server.network.addresses import Address
from headstream.server.resources.memory_budget import UNAUTHENTICATED_BYTES, MemoryBudget, default_budget_bytes
from tests.support.server.peers import HttpPeer
from tests.support.server.served import Running, config_of, make_topic, serving
from tests.support.waiting import wait_until

MIB = 1 << 20
TOTAL = 16 * MIB

MakeLoop = Callable[[], asyncio.AbstractEventLoop]


def in_loop(check: Callable[[MemoryBudget], None]) -> None:
    """Run something that needs an event loop around it."""

    async def run() -> None:
        check(MemoryBudget(TOTAL))

    asyncio.run(run())


def test_budget_gives_a_user_half_when_another_may_want_the_rest() -> None:
    def check(budget: MemoryBudget) -> None:
        mine, more, other = budget.open(1), budget.open(1), budget.open(2)
        assert mine.hold_requests(8 * MIB)
        assert not more.hold_requests(MIB)
        assert other.hold_requests(8 * MIB)
        assert budget.is_full
        mine.close()
        assert more.hold_requests(MIB)
        assert budget.held_bytes == 9 * MIB

    in_loop(check)


def test_budget_keeps_a_reserve_for_small_requests_when_it_is_full() -> None:
    def check(budget: MemoryBudget) -> None:
        for user in (1, 2):
            assert budget.open(user).hold_requests(8 * MIB)
        assert not budget.open(3).hold_requests(65 << 10)
        held = [budget.open(1).hold_requests(64 << 10) for _ in range(100)]
        assert sum(held) == 2 * MIB // (64 << 10)

    in_loop(check)


def test_budget_gives_unauthenticated_clients_a_small_part_when_they_are_many() -> None:
    def check(budget: MemoryBudget) -> None:
        held = [budget.open(f"10.0.0.{number}").hold_requests(UNAUTHENTICATED_BYTES) for number in range(1000)]
        assert sum(held) == TOTAL // 16 // UNAUTHENTICATED_BYTES
        assert budget.open(1).hold_requests(8 * MIB)

    in_loop(check)


def test_polls_wait_for_their_own_user_alone_when_it_does_not_take_responses() -> None:
    def check(budget: MemoryBudget) -> None:
        slow, more_of_slow, other = budget.open(1), budget.open(1), budget.open(2)
        before = other.poll_bytes
        slow.note_responses(6 * MIB)
        assert more_of_slow.poll_bytes == MIB // 2  # a quarter of what its half has left
        assert other.poll_bytes == before == 2 * MIB
        slow.note_responses(8 * MIB)
        assert more_of_slow.poll_bytes == 0
        assert other.poll_bytes == before
        budget.open(3).note_responses(8 * MIB)
        assert budget.is_full
        assert 0 < other.poll_bytes <= 256 << 10  # out of the reserve
        slow.note_responses(0)
        assert other.poll_bytes > MIB

    in_loop(check)


def test_account_moves_what_it_holds_when_its_client_logs_in() -> None:
    def check(budget: MemoryBudget) -> None:
        account = budget.open("10.0.0.1")
        assert account.hold_requests(UNAUTHENTICATED_BYTES)
        account.log_in(7)
        assert account.hold_requests(8 * MIB)
        account.close()
        assert (budget.held_bytes, budget._unauthenticated_bytes, budget._of_user) == (0, 0, {})

    in_loop(check)


def test_account_holds_soon_when_another_lets_go_and_is_refused_when_none_does(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        budget = MemoryBudget(TOTAL)
        first, second, third = budget.open(1), budget.open(1), budget.open(1)
        assert first.hold_requests(8 * MIB)
        waiting = asyncio.create_task(second.hold_soon(8 * MIB))
        await asyncio.sleep(0)
        assert second.is_waiting
        first.close()
        await waiting
        monkeypatch.setattr("headstream.server.resources.memory_budget.WAIT_S", 0.01)
        with pytest.raises(ServerUnreachableError, match="not enough free memory") as refused:
            await third.hold_soon(MIB)
        assert refused.value.status == Status.SERVER_BUSY
        assert (budget.refused, third.is_waiting) == (1, False)

    asyncio.run(run())


def test_account_holds_more_in_a_body_and_as_much_as_before_after_it() -> None:
    async def run() -> None:
        budget = MemoryBudget(1 << 20)
        account = budget.open(1)
        assert account.hold_requests(1000)
        with suppress(RuntimeError):
            async with account.hold_more(500_000):
                assert budget.held_bytes == 501_000
                raise RuntimeError("as arranged")
        assert budget.held_bytes == 1000
        async with account.hold_more(0):
            assert budget.held_bytes == 1000

    asyncio.run(run())


def test_budget_tells_once_of_relief_when_much_was_held_and_little_is() -> None:
    async def run() -> None:
        budget = MemoryBudget(1 << 30)
        account = budget.open(1)
        assert account.hold_requests(100 * MIB)
        assert not budget.take_relief()
        account.close()
        assert [budget.take_relief(), budget.take_relief()] == [True, False]

    asyncio.run(run())


def test_default_budget_is_a_quarter_of_the_memory_at_most() -> None:
    import psutil

    assert 64 * MIB <= default_budget_bytes() <= psutil.virtual_memory().total // 4


# -- over TCP --------------------------------------------------------------------------------------------------


def partial_send(size: int, sent: int) -> bytes:
    """Return the beginning of a request that claims a size."""
    return request_head(Code.SEND_MESSAGES, size) + bytes(sent)


def budget_of(running: Running) -> MemoryBudget:
    assert running.server._tcp is not None
    return running.server._tcp.budget


@contextmanager
def full(running: Running) -> Iterator[None]:
    """Let another user hold all memory for requests."""
    other = budget_of(running).open(2)

    async def fill() -> None:
        assert other.hold_requests(TOTAL)

    async def empty() -> None:
        other.close()

    running.run(fill())
    yield
    running.run(empty())


def test_tcp_ends_big_requests_that_wait_for_memory_and_serves_small_ones(
    make_loop: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.server.resources.memory_budget.WAIT_S", 0.2)
    with serving(config_of(memory_budget_bytes=TOTAL), make_loop) as running:
        budget = budget_of(running)
        greedy = [running.peer(is_extended=True) for _ in range(4)]
        for peer in greedy:
            peer.socket.settimeout(0.5)
            with suppress(TimeoutError, ConnectionError):  # the server reads nothing more of it, or has ended it already
                peer.send(partial_send(32 * MIB, 31 * MIB))
        assert budget.held_bytes <= TOTAL
        with running.peer() as quiet:
            assert quiet.request(Code.PING) == (0, b"")
            quiet.ask(CreateStream(0, "shop"))
        wait_until(lambda: budget.refused >= 3)
        for peer in greedy:
            peer.close()
        wait_until(lambda: budget.held_bytes == 0)


def test_tcp_says_that_there_is_no_memory_when_it_refuses_a_request(make_loop: MakeLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headstream.server.resources.memory_budget.WAIT_S", 0.05)
    with serving(config_of(memory_budget_bytes=MIB), make_loop) as running, running.peer(is_extended=True) as peer:
        peer.send(partial_send(4 * MIB, 600 << 10))
        status, body = peer.receive()
        assert status == Status.SERVER_BUSY
        assert "not enough free memory" in str(decode_refusal(status, body))
        assert peer.is_closed()
    with serving(config_of(memory_budget_bytes=MIB), make_loop) as running, running.peer() as peer:
        peer.send(partial_send(4 * MIB, 600 << 10))
        assert peer.receive() == (Status.DISCONNECTED, b""), "existing clients connect again, and repeat the command once"


def test_tcp_holds_little_of_unauthenticated_clients_when_thousands_send_half_a_request(make_loop: MakeLoop) -> None:
    with serving(make_loop=make_loop) as running:
        budget, unauthenticated_clients = budget_of(running), [running.peer(is_logged_in=False) for _ in range(200)]
        for unauthenticated in unauthenticated_clients:
            unauthenticated.send(request_head(Code.LOGIN, 3000) + bytes(2000))
        wait_until(lambda: budget.held_bytes == 200 * UNAUTHENTICATED_BYTES)


@pytest.mark.parametrize("code", [Code.LOGIN, Code.APPEND_NUMBERED])
def test_tcp_refuses_a_request_of_more_than_a_login_has_before_the_login(make_loop: MakeLoop, code: Code) -> None:
    with serving(make_loop=make_loop) as running, running.peer(is_logged_in=False) as unauthenticated:
        unauthenticated.send(request_head(code, UNAUTHENTICATED_BYTES) + bytes(100))
        assert unauthenticated.receive() == (Status.UNAUTHENTICATED, b"")
        assert unauthenticated.is_closed()


def test_tcp_takes_a_long_request_behind_a_login_when_both_come_together(make_loop: MakeLoop) -> None:
    with serving(make_loop=make_loop) as running:
        with running.peer() as root:
            make_topic(root)
        with running.peer(is_logged_in=False) as peer:
            login = encode_request(Code.LOGIN, b"\x04iggy\x04iggy" + bytes(8))
            sent = send_of(20_000)
            peer.send(login + encode_request(sent.code, sent.encode()) + encode_request(Code.PING))
            assert [peer.receive()[0] for _ in range(3)] == [0, 0, 0]


def send_of(size: int) -> SendMessages:
    return SendMessages("shop", "orders", Partitioning.partition(1), encode_sent([Message(payload=bytes(size))]))


def test_tcp_reads_no_more_messages_when_replies_that_nobody_takes_fill_the_budget(
    make_loop: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.server.resources.memory_budget.WAIT_S", 0.2)
    poll = PollMessages(ConsumerRef(ConsumerKind.CONSUMER, 1), "shop", "orders", 1, PollingKind.OFFSET, 0, 10, False)
    with serving(config_of(memory_budget_bytes=TOTAL), make_loop) as running:
        with running.peer() as root:
            make_topic(root)
            root.ask(send_of(8 * MIB))  # more than the system's buffers take
        budget, deaf = budget_of(running), [running.peer() for _ in range(20)]
        for peer in deaf:
            peer.send(encode_request(poll.code, poll.encode()) * 20)
        wait_until(lambda: budget.refused > 0)
        assert budget.held_bytes <= TOTAL + 8 * MIB, "a poll brings one message at least, however big"
        for peer in deaf:
            peer.close()
        tcp = running.server._tcp
        wait_until(lambda: tcp is not None and not tcp._connections)
        wait_until(lambda: budget.held_bytes == 0)
        with running.peer() as root:
            assert root.ask(poll).count > 0


def test_tcp_stores_a_numbered_batch_once_when_it_was_refused_for_memory_and_comes_again(
    make_loop: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.server.resources.memory_budget.WAIT_S", 0.05)
    with serving(config_of(memory_budget_bytes=TOTAL), make_loop) as running, running.peer(is_extended=True) as root:
        make_topic(root)
        producer = root.ask(InitProducer())
        sent = send_of(100_000).messages
        command = AppendNumbered("shop", "orders", 1, producer.producer_id, producer.epoch, 0, sent)
        with full(running):
            root.send(encode_request(command.code, command.encode()))
            assert root.receive()[0] == Status.SERVER_BUSY
            assert root.is_closed()
        with running.peer(is_extended=True) as again:
            stored = [again.ask(command) for _ in range(2)]
        assert [(each.offset, each.is_repeat) for each in stored] == [(0, False), (0, True)]


# -- over HTTP -------------------------------------------------------------------------------------------------


def http_of(running: Running) -> HttpPeer:
    address = running.server.http_address
    assert address is not None
    return HttpPeer(address)


def test_http_takes_no_more_than_a_login_has_when_nobody_is_logged_in(make_loop: MakeLoop) -> None:
    config = config_of(http_address=Address("127.0.0.1", 0))
    with serving(config, make_loop) as running, http_of(running) as peer:
        assert peer.login() == 1
        peer.token = None
        status, body = peer.request("POST", "/users/login", b'{"username": "' + b"x" * UNAUTHENTICATED_BYTES + b'"}')
        assert (status, body) == (413, b"the body must have at most 4096 bytes")


def test_http_refuses_messages_that_there_is_no_memory_for_and_lets_go_of_what_was_sent(
    make_loop: MakeLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.server.resources.memory_budget.WAIT_S", 0.05)
    config = config_of(http_address=Address("127.0.0.1", 0), memory_budget_bytes=TOTAL)
    with serving(config, make_loop) as running, running.peer() as root, http_of(running) as peer:
        make_topic(root)
        root.ask(send_of(100))
        budget = budget_of(running)
        peer.login()
        path = "/streams/shop/topics/orders/messages?consumer_id=1&partition_id=1&kind=offset&value=0&count=1000"
        assert peer.request("GET", path)[0] == 200
        wait_until(lambda: budget.held_bytes == 0)
        with full(running):
            status, body = peer.request("GET", path)
            assert (status, json.loads(body)["id"]) == (503, Status.SERVER_BUSY)
        assert peer.request("GET", path)[0] == 200
        wait_until(lambda: budget.held_bytes == 0)
