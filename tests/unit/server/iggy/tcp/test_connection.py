"""TCP: what clients can make the server's memory be."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable

from headstream.core.wire.codes import Code
from headstream.core.wire.frames import MAX_FRAME_BYTES, FrameBufferPool
from tests.support.server.served import Peer, serving
from tests.support.waiting import wait_until


def test_tcp_keeps_its_memory_when_a_request_only_claims_to_be_long(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with serving(make_loop=make_loop) as running, running.peer() as peer:
        tcp = running.server._tcp
        assert tcp is not None
        peer.send(struct.pack("<II", MAX_FRAME_BYTES - 4, Code.SEND_MESSAGES) + b"x" * 100_000)
        wait_until(lambda: any(each._frames.pending_bytes > 99_000 for each in tcp._connections))
        held = max(len(each._frames._buffer or b"") for each in tcp._connections)
        assert held <= 1 << 20  # one step; beyond it, a buffer is at most twice what was received


def test_tcp_keeps_its_memory_when_a_crowd_leaves_at_once(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def leave(peers: list[Peer]) -> None:
        for peer in peers:  # in the server's own loop: it hears of all of them together
            peer.close()

    with serving(make_loop=make_loop) as running:
        tcp = running.server._tcp
        assert tcp is not None
        peers = [running.peer(is_logged_in=False) for _ in range(50)]
        assert [peer.request(Code.PING) for peer in peers] == [(0, b"")] * 50
        running.run(leave(peers))
        wait_until(lambda: not tcp._connections)
        assert tcp.pool.size_bytes <= 2 * len(FrameBufferPool().take(1))
