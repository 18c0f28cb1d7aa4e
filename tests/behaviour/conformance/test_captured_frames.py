"""The frames that real clients were captured with, sent to the running server in the order in which they were sent then."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headstream.core.codec.binary import decode_polled
from headstream.core.wire.codes import Code
from headstream.core.wire.command_classes import COMMANDS
from headstream.core.wire.commands.messages import PolledMessages, PollMessages
from headstream.core.wire.frames import encode_request
from headstream.core.wire.statuses import Status
from tests.support.server.peers import TcpPeer

Connect = Callable[..., TcpPeer]
Record = dict[str, Any]
RECORDS: list[Record] = json.loads((Path(__file__).parents[2] / "vectors" / "iggy-vectors.json").read_text())
PAIRS: dict[str, list[tuple[Record, Record]]] = {}
for request, response in zip(RECORDS[::2], RECORDS[1::2], strict=True):
    PAIRS.setdefault(request["client"].split()[1], []).append((request, response))
SPOKEN = ("0.2.0", "0.2.7", "0.4.0")
LATER = "0.5.0"


def code_of(frame: bytes) -> int:
    return int(struct.unpack_from("<I", frame, 4)[0])


def status_in(response: Record) -> int:
    return int(struct.unpack_from("<I", bytes.fromhex(response["hex"]))[0])


def test_captures_have_the_expected_number_of_requests_per_client() -> None:
    assert {client: len(pairs) for client, pairs in PAIRS.items()} == {"0.2.0": 5, "0.2.7": 23, "0.4.0": 23, LATER: 23}


@pytest.mark.parametrize("client", SPOKEN)
def test_a_captured_conversation_is_answered_as_its_client_expects(root: TcpPeer, connect: Connect, client: str) -> None:
    """Status for status as recorded, each reply decoding; what was served from a script then is what was really sent now."""
    peer, sent = connect(), dict[int, list[str]]()
    for request, response in PAIRS[client]:
        frame = bytes.fromhex(request["hex"])
        command = COMMANDS[code_of(frame)]
        status, body = peer.exchange(frame)
        assert status == status_in(response), request["name"]
        if status:
            assert body == b""
            continue
        reply = command.decode_reply(body)
        assert len(body) != 1
        assert (not body) == (len(response["hex"]) == 16), request["name"]
        if command.code == Code.SEND_MESSAGES:
            said = request["decoded"]
            partition = int.from_bytes(bytes.fromhex(said["partitioning"]["value_hex"]), "little")
            sent.setdefault(partition, []).extend(message["payload"] for message in said["messages"])
        if isinstance(reply, PolledMessages):
            polled = decode_polled(reply.messages)
            assert reply.count == len(polled)
            expected = sent.get(reply.partition, [])
            assert reply.current_offset == max(len(expected) - 1, 0)
            for message in polled:
                assert message.offset is not None
                assert (message.payload or b"").decode() == expected[message.offset]
                assert message.verify()
                assert message.id
    assert sum(map(len, sent.values())) >= 2


def test_the_later_generation_is_refused_clearly_and_nothing_of_it_is_stored(root: TcpPeer, connect: Connect) -> None:
    """Its login by the version; its send, whose messages have a header of 56 bytes, even from a client that is logged in."""
    peer = connect()
    frames = [bytes.fromhex(request["hex"]) for request, _ in PAIRS[LATER]]
    logins = [frame for frame in frames if code_of(frame) == Code.LOGIN]
    sends = [frame for frame in frames if code_of(frame) == Code.SEND_MESSAGES]
    assert (len(logins), len(sends)) == (2, 1)
    for frame in logins:
        assert peer.exchange(frame) == (Status.INVALID_VERSION, b"")
    for frame in frames:
        if code_of(frame) not in (Code.LOGIN, Code.PING):
            status, body = peer.exchange(frame)
            assert body == b""
            assert status in (0, Status.UNAUTHENTICATED, Status.INVALID_COMMAND)
            assert status or COMMANDS[code_of(frame)].entry().is_lookup
    peer.login()
    for frame in frames:
        if code_of(frame) in (Code.CREATE_STREAM, Code.CREATE_TOPIC):
            peer.exchange(frame)
    for frame in sends:
        assert peer.exchange(frame) == (Status.INVALID_COMMAND, b"")
    for frame in frames:
        if code_of(frame) == Code.POLL_MESSAGES:
            status, body = peer.exchange(frame)
            assert status == Status.PARTITION_NOT_FOUND or PollMessages.decode_reply(body).count == 0
    assert peer.exchange(encode_request(Code.PING)) == (0, b"")
