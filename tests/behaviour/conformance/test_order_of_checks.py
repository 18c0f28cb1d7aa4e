"""The order in which a server looks for a reason to refuse: decoding, validation, login, existence, permission."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.messages import SendMessages
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions
from headstream.core.wire.commands.streams import PurgeStream
from headstream.core.wire.commands.tokens import CreateToken
from headstream.core.wire.commands.users import CreateUser, DeleteUser, UserStatus
from headstream.core.wire.frames import encode_request
from headstream.core.wire.statuses import Status
from tests.behaviour.conformance.scenes import DATA, build, create_topic, in_a_stream, in_a_topic, poll_of
from tests.support.server.peers import HttpPeer, Peer, TcpPeer, refused


def test_without_a_login_existence_is_not_told(root: TcpPeer, guest: Peer) -> None:
    build(root)
    seen = set()
    for command in [*in_a_stream(1), *in_a_stream(99), *in_a_topic(1, "nowhere"), DeleteUser(99), CreateToken("name", 0)]:
        if command.entry().route is None and guest.transport == "http":
            continue
        status = refused(guest, command)
        is_purge = isinstance(command, PurgeStream) and guest.transport == "tcp"
        assert status == (Status.UNAUTHORIZED if is_purge else Status.UNAUTHENTICATED), command
        seen.add(command.code)
    assert len(seen) >= 20


def test_without_rights_what_does_not_exist_is_refused_as_what_does(root: TcpPeer, guest: Peer) -> None:
    build(root)
    root.ask(CreateUser("user", "secret", UserStatus.ACTIVE))
    guest.login("user", "secret")
    for command in in_a_stream(1):
        if command.entry().route is None and guest.transport == "http":
            continue
        assert refused(guest, command) == Status.UNAUTHORIZED, command
    for command in [*in_a_stream(99), *in_a_topic(1, "nowhere")]:  # the original tells 1009 and 2011: names can be tried there
        if command.entry().route is None and guest.transport == "http":
            continue
        assert refused(guest, command) == Status.UNAUTHORIZED, command
    everywhere = Permissions(GlobalPermissions(poll_messages=True))
    root.ask(CreateUser("reader", "secret", UserStatus.ACTIVE, everywhere))
    guest.login("reader", "secret")
    for command in in_a_stream(99):
        if command.entry().route is None and guest.transport == "http":
            continue
        assert refused(guest, command) == Status.STREAM_ID_NOT_FOUND, command
    assert refused(guest, poll_of(99, count=0)) == Status.INVALID_MESSAGES_COUNT


def test_decoding_comes_before_validation_and_validation_before_the_login(root: TcpPeer, guest: Peer) -> None:
    build(root)
    if isinstance(guest, HttpPeer):
        assert guest.request("POST", "/streams", b"{") == (401, b"")
        return
    assert isinstance(guest, TcpPeer)
    assert guest.exchange(encode_request(Code.CREATE_STREAM, b"\0")) == (Status.INVALID_COMMAND, b"")
    assert guest.exchange(encode_request(Code.CREATE_STREAM, bytes(5))) == (Status.INVALID_STREAM_NAME, b"")
    assert guest.exchange(encode_request(Code.CREATE_STREAM, bytes(4) + b"\1a")) == (Status.UNAUTHENTICATED, b"")


ANY = Partitioning.balanced()
TOO_BIG = encode_sent([Message(payload=bytes(10_000_001))])
WRONG = {DATA[:-1]: Status.INVALID_COMMAND, encode_sent([Message(payload=b"")]): Status.INVALID_COMMAND, TOO_BIG: 4022}


@pytest.mark.parametrize(("messages", "status"), WRONG.items(), ids=["cut", "empty", "too big"])
def test_send_refuses_invalid_messages_before_it_looks_for_their_topic(
    root: TcpPeer, connect: Callable[..., TcpPeer], messages: bytes, status: int
) -> None:
    build(root)
    root.ask(create_topic(1, "empty", 0))
    for stream, topic, partitioning in ((99, 1, ANY), (1, 99, ANY), (1, 1, Partitioning.partition(9)), (1, "empty", ANY)):
        assert refused(root, SendMessages(stream, topic, partitioning, messages)) == status
    root.ask(CreateUser("user", "secret", UserStatus.ACTIVE))
    guest = connect("user")
    assert refused(guest, SendMessages(1, 1, ANY, messages)) == status
    assert refused(guest, SendMessages(1, 1, ANY, DATA)) == Status.UNAUTHORIZED
