"""What tests of the server share: both event loops that it runs on, and both that read for its connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from headstream.core.wire.codes import Code
from tests.support.server.served import Peer, Running


@pytest.fixture(params=[pytest.param("asyncio", marks=pytest.mark.nightly), "uvloop"], scope="module")
def make_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    """The event loop of the standard library, and the quicker one."""
    if request.param == "asyncio":
        return asyncio.new_event_loop
    make: Callable[[], asyncio.AbstractEventLoop] = pytest.importorskip("uvloop").new_event_loop
    return make


@pytest.fixture(params=["transport", "intake"], scope="module")
def read_by(request: pytest.FixtureRequest) -> Iterator[None]:
    """All that is true where transports read is true where an intake does, from the first request behind the login on."""
    peer_of = Running.peer

    def quiet_peer(running: Running, *, is_logged_in: bool = True, is_extended: bool = False) -> Peer:
        peer = peer_of(running, is_logged_in=is_logged_in, is_extended=is_extended)
        if is_logged_in:
            assert peer.request(Code.PING) == (0, b"")
        return peer

    with pytest.MonkeyPatch.context() as patch:
        if request.param == "intake":
            patch.setattr(Running, "peer", quiet_peer)
            patch.setattr("headstream.server.iggy.tcp.reader_switch._SHORT_REQUESTS", 1)
        else:
            patch.setattr("headstream.server.iggy.tcp.reader_switch._SHORT_REQUESTS", 1 << 62)
        yield
