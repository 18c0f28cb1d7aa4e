"""The original suite's test of integrity: a server that is started again on its directory tells and holds what it did before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import PollingKind
from headstream.core.wire.commands.groups import CreateGroup, ListGroups
from headstream.core.wire.commands.messages import FlushMessages
from headstream.core.wire.commands.offsets import GetOffset, StoreOffset
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions
from headstream.core.wire.commands.streams import CreateStream, DeleteStream, GetStream, ListStreams
from headstream.core.wire.commands.system import GetStats
from headstream.core.wire.commands.tokens import CreateToken, ListTokens, LoginWithToken
from headstream.core.wire.commands.topics import NEVER, Compression, CreateTopic, DeleteTopic, GetTopic
from headstream.core.wire.commands.users import CreateUser, GetUser, ListUsers, UserStatus
from tests.behaviour.conformance.scenes import CONSUMER, GROUP, create_topic, poll, polled, send
from tests.support.server.peers import TcpPeer
from tests.support.server.server_process import ServerProcess

STREAMS = range(1, 5)


def fill(peer: TcpPeer) -> None:
    for stream in STREAMS:
        peer.ask(CreateStream(stream, f"stream {stream}"))
        peer.ask(CreateTopic(stream, 0, 3, Compression.GZIP, NEVER, 5 << 30, stream, "topic/1"))
        peer.ask(CreateGroup(stream, 1, 5, "group"))
        for number in range(6):
            send(peer, [b"%d of %d" % (number, stream)] * 100, Partitioning.balanced(), stream)
        peer.ask(FlushMessages(stream, 1, 1, True))
    peer.ask(StoreOffset(CONSUMER, 1, 1, 2, 150))
    peer.ask(CreateStream(0, "deleted"))
    peer.ask(DeleteStream("deleted"))
    peer.ask(create_topic(1, "deleted"))
    peer.ask(DeleteTopic(1, "deleted"))
    peer.ask(
        CreateUser("user", "secret", UserStatus.ACTIVE, Permissions(GlobalPermissions(read_streams=True, send_messages=True)))
    )


def look(peer: TcpPeer) -> list[Any]:
    """Return all that a client can see, apart from what belongs to the process."""
    stats = peer.ask(GetStats())
    return [
        *(stats.messages_size_bytes, stats.streams_count, stats.topics_count, stats.partitions_count, stats.segments_count),
        *(stats.messages_count, stats.clients_count, stats.groups_count),
        peer.ask(ListStreams()),
        *(peer.ask(GetStream(stream)) for stream in STREAMS),
        *(peer.ask(GetTopic(stream, "topic/1")) for stream in STREAMS),
        *(peer.ask(ListGroups(stream, 1)) for stream in STREAMS),
        *(poll(peer, stream=stream, partition=partition) for stream in STREAMS for partition in (1, 2, 3)),
        peer.ask(GetOffset(CONSUMER, 1, 1, 2)),
        polled(poll(peer, PollingKind.NEXT, partition=2)),
        peer.ask(ListUsers()),
        peer.ask(GetUser("user")),
        peer.ask(ListTokens()),
    ]


@pytest.mark.parametrize("ending", ["stopped", "killed"])
def test_everything_is_there_again_after_a_restart(tmp_path: Path, ending: str) -> None:
    with ServerProcess(tmp_path / "log") as server:
        with TcpPeer(server.tcp) as peer:
            peer.login()
            fill(peer)
            token = peer.ask(CreateToken("token", NEVER)).token
            before = look(peer)
            if ending == "killed":
                server.kill()
            else:
                assert server.stop() == 0, server.output
        with server.again() as again, TcpPeer(again.tcp) as peer:
            assert peer.ask(LoginWithToken(token)).user_id == 1
            assert look(peer) == before
            send(peer, [b"after"], stream=4)
            assert polled(poll(peer, PollingKind.LAST, count=1, stream=4))[0].offset == 200
            assert peer.ask(GetOffset(GROUP, 1, 1, 2)) is None
