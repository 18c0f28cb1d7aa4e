"""Requests that are none: answered 3, or by a status of their own, and the connection stays."""

from __future__ import annotations

import struct

import pytest

from headstream.core.wire.codes import TABLE, Code
from headstream.core.wire.commands.streams import GetStream
from headstream.core.wire.frames import encode_request
from headstream.core.wire.statuses import Status
from tests.behaviour.conformance.conftest import clear
from tests.behaviour.conformance.scenes import DATA, build, poll_of
from tests.support.server.peers import Peer, TcpPeer

UNDECODABLE = [
    pytest.param(0, b"", id="no such command"),
    pytest.param(9999, b"", id="unknown command"),
    pytest.param(0xFFFF_FFFF, b"\0" * 100, id="the largest code"),
    pytest.param(Code.GET_STREAM, b"\1\4\1\0\0", id="an identifier cut short"),
    pytest.param(Code.GET_STREAM, b"\3\4\1\0\0\0", id="an identifier of no kind"),
    pytest.param(Code.GET_STREAM, b"\1\3\1\0\0", id="a numeric identifier of 3 bytes"),
    pytest.param(Code.GET_STREAM, b"\2\0", id="an empty name"),
    pytest.param(Code.GET_STREAM, b"\2\2\xff\xfe", id="a name that is not UTF-8"),
    pytest.param(Code.CREATE_STREAM, bytes(4) + b"\2\xff\xfe", id="a new name that is not UTF-8"),
    pytest.param(Code.LOGIN, b"\xffiggy", id="a login cut short"),
    pytest.param(Code.UPDATE_USER, b"\1\4\2\0\0\0\7\0", id="neither yes nor no"),
    pytest.param(Code.CREATE_USER, b"\4user\6secret\3\0", id="a user's status of no kind"),
    pytest.param(Code.SNAPSHOT, b"\2\2\4\x64", id="a snapshot of everything and more"),
    pytest.param(Code.SNAPSHOT, b"\x09\1\4", id="a snapshot packed in no way"),
    pytest.param(Code.POLL_MESSAGES, b"\1" + b"\1\4\1\0\0\0" * 3 + b"\1\0\0\0\6" + bytes(13), id="poll from nowhere"),
    pytest.param(Code.SEND_MESSAGES, b"\1\4\1\0\0\0\1\4\1\0\0\0\4\0" + DATA, id="partitioning of no kind"),
    pytest.param(Code.SEND_MESSAGES, b"\1\4\1\0\0\0\1\4\1\0\0\0\1\0" + DATA[:-1], id="a payload cut short"),
    pytest.param(
        Code.SEND_MESSAGES,
        b"\1\4\1\0\0\0\1\4\1\0\0\0\1\0" + bytes(16) + struct.pack("<I", 1 << 31) + DATA[20:],
        id="headers that claim 2 GB",
    ),
    pytest.param(
        Code.SEND_MESSAGES,
        b"\1\4\1\0\0\0\1\4\1\0\0\0\1\0" + bytes(16) + struct.pack("<I", 10) + struct.pack("<I", 200) + bytes(6) + DATA[20:],
        id="a header whose key is longer than the block",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def scene(admins: dict[str, Peer]) -> TcpPeer:
    """User 1 with a stream and a topic; no test changes anything."""
    root = clear(admins["tcp"])
    build(root)
    return root


@pytest.mark.parametrize(("code", "payload"), UNDECODABLE)
def test_what_cannot_be_decoded_is_answered_3_and_the_connection_stays(scene: TcpPeer, code: int, payload: bytes) -> None:
    assert scene.exchange(encode_request(code, payload)) == (Status.INVALID_COMMAND, b"")
    assert scene.ask(GetStream(1)) is not None
    assert scene.ask(poll_of()).count == 0


@pytest.mark.parametrize(("code", "payload"), [(Code.PING, b""), (Code.LIST_STREAMS, b""), (Code.GET_STREAM, b"\1\4\1\0\0\0")])
def test_bytes_after_the_last_field_of_a_request_are_ignored(scene: TcpPeer, code: int, payload: bytes) -> None:
    expected = scene.exchange(encode_request(code, payload))
    assert expected[0] == 0
    assert scene.exchange(encode_request(code, payload + b"\0")) == expected


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_a_frame_without_room_for_a_code_is_answered_3_and_the_connection_stays(scene: TcpPeer, length: int) -> None:
    assert scene.exchange(struct.pack("<I", length) + bytes(length)) == (Status.INVALID_COMMAND, b"")
    assert scene.exchange(encode_request(Code.PING)) == (0, b"")


@pytest.mark.parametrize(
    ("partitioning", "status"),
    [
        (b"\2\3\1\0\0", Status.INVALID_NUMBER_ENCODING),
        (b"\2\0", Status.INVALID_KEY_VALUE_LENGTH),
        (b"\3\0", Status.INVALID_KEY_VALUE_LENGTH),
    ],
)
def test_partitioning_by_a_wrong_value_is_refused_by_its_own_status(scene: TcpPeer, partitioning: bytes, status: Status) -> None:
    payload = b"\1\4\1\0\0\0\1\4\1\0\0\0" + partitioning + DATA
    assert scene.exchange(encode_request(Code.SEND_MESSAGES, payload)) == (status, b"")


def test_an_extension_is_not_known_to_a_client_that_does_not_ask_for_any(scene: TcpPeer) -> None:
    for code in (code for code, entry in TABLE.items() if entry.is_extension):
        status, body = scene.exchange(encode_request(code, bytes(4)))
        assert (status, body) == (Status.INVALID_COMMAND, b"")
