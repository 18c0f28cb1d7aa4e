"""Clients of protocol 0.11 and of the older one on the same server: logins, evictions, groups of both."""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator

import pytest

from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.groups import JoinGroup, LeaveGroup
from headstream.core.wire.commands.messages import PollMessages, SendMessages
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.extensions.groups import EnterGroup, ExitGroup
from headstream.core.wire.statuses import Status
from headstream.server.config.tcp_settings import ConnectionLimits, TcpSettings
from tests.support.messages.batches import sent
from tests.support.server.served import Running, config_of, serving
from tests.support.server.vsr_peer import LOGIN, VsrPeer, login_body, request_frame

NAMES = b"\x02\x04shop\x02\x02eu"
GROUP = NAMES + b"\x02\x07billing"
BILLING = b"\x02\x02\x07billing"
CREATE_STREAM, CREATE_TOPIC, CREATE_GROUP, JOIN, LEAVE, STORE, SYNC = 128, 132, 139, 148, 149, 161, 606


@pytest.fixture
def running() -> Iterator[Running]:
    """A server with the topic shop/eu of 4 partitions and the group billing."""
    with serving(config_of()) as running:
        with VsrPeer(running.address) as peer:
            assert peer.ask(CREATE_STREAM, b"\x04shop").status == 0
            assert peer.ask(CREATE_TOPIC, b"\x02\x04shop\x04\x00\x00\x00\x02eu").status == 0
            assert peer.ask(CREATE_GROUP, NAMES + b"\x07billing").status == 0
        yield running


def partitions(peer: VsrPeer) -> tuple[int, list[int]]:
    """Return the generation of the group and the partitions of a member."""
    body = peer.read(SYNC, GROUP).body
    generation, count = struct.unpack_from("<QI", body)
    return generation, list(struct.unpack_from(f"<{count}I", body, 12))


def poll(peer: VsrPeer, partition: int) -> tuple[int, int]:
    """Return the partition and the number of messages of a poll for the group."""
    body = peer.read(Code.POLL_MESSAGES, BILLING + NAMES + b"\x01" + struct.pack("<IBQIB", partition, 5, 0, 10, 1)).body
    found, _, count = struct.unpack_from("<IQI", body)
    return found, count


def test_vsr_responder_evicts_a_login_with_the_reason(running: Running) -> None:
    with VsrPeer(running.address, "") as peer:
        assert peer.ask(LOGIN, login_body("iggy", "wrong")).eviction == 9
        assert peer.ask(LOGIN, login_body()[:-9] + bytes(4)).eviction == 10  # a token
        assert peer.read(201).status == Status.UNAUTHENTICATED
        assert peer.ask(LOGIN, login_body()).status == 0  # the connection is still open
    with VsrPeer(running.address, "") as peer:
        answer = peer.ask(LOGIN, login_body(version=12 << 10))
        assert (answer.eviction, answer.header[144:152]) == (14, struct.pack("<II", 11 << 10, 11 << 10))
        with pytest.raises(ConnectionError):
            peer.read(1)
    for wrong in (login_body()[:-1], b""):
        with VsrPeer(running.address, "") as peer:
            assert peer.ask(LOGIN, wrong).eviction == 15


def test_vsr_responder_refuses_a_body_that_does_not_match_its_checksum(running: Running) -> None:
    with VsrPeer(running.address) as peer:
        data = bytearray(request_frame(CREATE_STREAM, b"\x04made", session=peer.session, number=1))
        data[-1] ^= 1
        peer.socket.sendall(data)
        assert peer.receive().status == Status.INVALID_COMMAND
        assert peer.read(Code.GET_STREAM, b"\x02\x04made").body == b""


def test_vsr_responder_evicts_a_session_whose_user_is_gone(running: Running) -> None:
    with VsrPeer(running.address) as root:
        assert root.ask(141, b"\x03ann\x06secret\x01\x00").status == 0
        with VsrPeer(running.address, "ann", "secret") as peer:
            assert peer.read(Code.LIST_TOKENS).status == 0
            assert root.ask(143, b"\x02\x03ann").status == 0
            assert peer.read(Code.LIST_TOKENS).status == Status.UNAUTHENTICATED
            with pytest.raises(ConnectionError):
                peer.read(1)


def test_vsr_responder_logs_in_a_token(running: Running) -> None:
    with VsrPeer(running.address) as root, VsrPeer(running.address, "") as robot:
        made = root.ask(146, b"\x05robot" + b"\xff" * 8)
        token = made.body[4:]
        answer = robot.ask(LOGIN, login_body()[:-14] + token + bytes(4))
        assert struct.unpack_from("<II", answer.body) == (0, 1)  # no errors, the user's number
        robot.session = struct.unpack_from("<Q", answer.body, 8)[0]
        assert robot.ask(CREATE_STREAM, b"\x04made").status == 0


@pytest.mark.parametrize("session", [True, False])
def test_vsr_responder_knows_the_operations_of_the_protocol_and_no_others(running: Running, session: bool) -> None:
    writes = {1, 3, *range(128, 150), 160, 161, 162}
    reads = {1, 10, 11, 12, 13, 20, 21, 22, 31, 32, 41, 100, 102, 120, 200, 201, 300, 301, 600, 601, 606}
    asked = [*((each, 0) for each in range(256) if each != 2), *((2, code) for code in range(700))]
    while asked:
        with VsrPeer(running.address, "iggy" if session else "") as peer:
            is_open = True
            while asked and is_open:
                operation, code = asked.pop()
                answer = peer.ask(operation, b"", code=code)
                is_known = code in reads if operation == 2 else operation in writes
                is_open = session and not (is_known or answer.eviction)
                if session:
                    assert (answer.status == Status.FEATURE_UNAVAILABLE) is not is_known or answer.eviction, (operation, code)
                elif is_known and (operation, code) != (2, 1):
                    assert answer.eviction in (1, 15) if operation != 2 else answer.status == Status.UNAUTHENTICATED


def test_members_of_both_generations_share_the_partitions_of_a_group(running: Running) -> None:
    older = running.peer()
    for number in range(1, 5):
        older.ask(SendMessages("shop", "eu", Partitioning.partition(number), sent(b"x%d" % number) * 3))
    with VsrPeer(running.address) as today:
        assert today.read(SYNC, GROUP).body == b""
        assert today.ask(JOIN, GROUP).body == bytes(4)
        before, owned = partitions(today)
        assert owned == [0, 1, 2, 3]
        older.ask(JoinGroup("shop", "eu", "billing"))
        after, owned = partitions(today)
        assert after > before
        assert owned == [0, 2]
        asked = PollMessages(ConsumerRef(ConsumerKind.GROUP, "billing"), "shop", "eu", 0, PollingKind.NEXT, 0, 10, True)
        found = [older.ask(asked), older.ask(asked)]
        assert sorted((each.partition, each.count) for each in found) == [(2, 3), (4, 3)]
        assert [poll(today, partition) for partition in range(4)] == [(0, 3), (0xFFFF_FFFF, 0), (2, 3), (0xFFFF_FFFF, 0)]
        store = BILLING + NAMES + b"\x01" + struct.pack("<IQB", 1, 0, 1)
        assert today.ask(STORE, store).status == Status.CONSUMER_GROUP_PARTITION_NOT_OWNED
        older.ask(LeaveGroup("shop", "eu", "billing"))
        assert partitions(today)[1] == [0, 1, 2, 3]
        assert poll(today, 1) == (1, 0)  # what the other member has committed is not delivered again


def test_members_of_a_headstream_group_exclude_clients_of_protocol_0_11(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    own = running.peer(is_extended=True)
    member = own.ask(EnterGroup("shop", "eu", "billing", 30_000, False)).member_id
    with VsrPeer(running.address) as today:
        with caplog.at_level(logging.INFO, "headstream.server"):
            assert today.ask(JOIN, GROUP).status == Status.ERROR
        [line] = [each for each in caplog.records if each.getMessage() == "request refused"]
        assert "billing" in str(vars(line))
        own.ask(ExitGroup("shop", "eu", "billing", member))
        assert today.ask(JOIN, GROUP).status == 0


def test_vsr_responder_holds_an_empty_poll_until_a_message_arrives() -> None:
    with serving(config_of(tcp=TcpSettings(limits=ConnectionLimits(hold_s=60.0)))) as running, VsrPeer(running.address) as peer:
        assert peer.ask(CREATE_STREAM, b"\x04shop").status == 0
        assert peer.ask(CREATE_TOPIC, b"\x02\x04shop\x02\x00\x00\x00\x02eu").status == 0
        asked = b"\x01\x01\x04\x01\x00\x00\x00" + NAMES + b"\x01" + struct.pack("<IBQIB", 1, 5, 0, 10, 1)
        other = running.peer()
        for number in range(5):  # a client asks for one partition after the other: only one that is empty again is held
            other.ask(SendMessages("shop", "eu", Partitioning.partition(1), sent(b"busy")))
            assert peer.read(Code.POLL_MESSAGES, asked).body == struct.pack("<IQI", 1, 0, 0)
            busy = b"\x01\x01\x04\x01\x00\x00\x00" + NAMES + b"\x01" + struct.pack("<IBQIB", 0, 1, number, 1, 0)
            assert peer.read(Code.POLL_MESSAGES, busy).body[12:16] == b"\x01\x00\x00\x00"
        assert peer.read(Code.POLL_MESSAGES, asked).body == struct.pack("<IQI", 1, 0, 0)
        peer.socket.sendall(request_frame(2, asked, code=Code.POLL_MESSAGES, session=peer.session))
        other.ask(SendMessages("shop", "eu", Partitioning.partition(1), sent(b"elsewhere")))
        peer.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            peer.receive()
        peer.socket.settimeout(30)
        other.ask(SendMessages("shop", "eu", Partitioning.partition(2), sent(b"here")))
        assert struct.unpack_from("<IQI", peer.receive().body) == (1, 0, 1)
        held = BILLING + NAMES + b"\x01" + struct.pack("<IBQIB", 1, 5, 0, 10, 1)
        assert peer.read(Code.POLL_MESSAGES, held).status == Status.CONSUMER_GROUP_NAME_NOT_FOUND


def test_vsr_responder_answers_an_empty_poll_when_it_was_held_for_long_enough() -> None:
    with serving(config_of(tcp=TcpSettings(limits=ConnectionLimits(hold_s=0.02)))) as running, VsrPeer(running.address) as peer:
        assert peer.ask(CREATE_STREAM, b"\x04shop").status == 0
        assert peer.ask(CREATE_TOPIC, b"\x02\x04shop\x01\x00\x00\x00\x02eu").status == 0
        asked = b"\x01\x01\x04\x01\x00\x00\x00" + NAMES + b"\x01" + struct.pack("<IBQIB", 0, 5, 0, 10, 1)
        assert [peer.read(Code.POLL_MESSAGES, asked).body for _ in range(3)] == [bytes(16)] * 3
