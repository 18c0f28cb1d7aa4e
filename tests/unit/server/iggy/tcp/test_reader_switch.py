"""ReaderSwitch: whoever reads for a connection stops when its transport closes, and nobody else begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from headstream.core.wire.codes import Code
from headstream.core.wire.frames import request_head
from headstream.server.iggy.tcp.connection import TcpServerConnection
from headstream.server.iggy.tcp.reader_switch import ROUND_BYTES, ReaderSwitch
from tests.support.server.served import serving

SCRATCH_BYTES = 64 << 10


class Transport:
    """What ReaderSwitch asks of a transport; notes what it is told."""

    def __init__(self) -> None:
        self.closing = False
        self.said: list[str] = []

    def get_extra_info(self, name: str) -> Any:
        return self

    def fileno(self) -> int:
        return 7

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.said.append("pause")

    def resume_reading(self) -> None:
        self.said.append("resume")


class Intake:
    """Whom it reads for."""

    def __init__(self) -> None:
        self.idle: list[object] = []

    def begin(self, idle: object) -> None:
        self.idle.append(idle)

    def end(self, idle: object) -> None:
        self.idle.remove(idle)


@pytest.mark.parametrize("stop", [ReaderSwitch.pause, ReaderSwitch.is_over, ReaderSwitch.go_on_alone, ReaderSwitch.end])
@pytest.mark.parametrize("closing", [False, True])
def test_intake_reads_no_more_for_a_connection_that_stops_or_closes(
    monkeypatch: pytest.MonkeyPatch, stop: Callable[[ReaderSwitch], object], closing: bool
) -> None:
    monkeypatch.setattr("headstream.server.iggy.tcp.reader_switch._SHORT_REQUESTS", 1)
    monkeypatch.setattr("headstream.server.iggy.tcp.reader_switch.IdleConnection", lambda *given: given)
    transport, intake = Transport(), Intake()
    anything: Any = object()
    reading = ReaderSwitch(cast(Any, transport), anything, cast(Any, intake))
    reading.note(anything, is_short=True)
    assert len(intake.idle) == 1
    transport.closing = closing
    stop(reading)
    assert len(intake.idle) == (1 if stop is ReaderSwitch.is_over and not closing else 0)
    assert transport.said == (["pause", "resume"] if stop is ReaderSwitch.go_on_alone and not closing else ["pause"])
    transport.closing = True
    reading.end()
    reading.note(anything, is_short=True)
    assert not intake.idle


def test_yields_pauses_for_one_round_when_much_has_been_read() -> None:
    transport, rounds = Transport(), list[Callable[[], None]]()
    loop: Any = type("Rounds", (), {"call_with_capacity": staticmethod(lambda _, go_on: rounds.append(go_on))})
    switch = ReaderSwitch(cast(Any, transport), cast(Any, None), None)

    def go_on() -> None:
        assert not switch.yields(loop, go_on)
        assert not switch.resume()  # no pause whose time counts

    switch.read_bytes = ROUND_BYTES - 1
    assert not switch.yields(loop, go_on)
    switch.read_bytes += 1
    assert switch.yields(loop, go_on)
    assert (transport.said, switch.is_paused, rounds) == (["pause"], True, [go_on])
    rounds[0]()
    assert transport.said == ["pause", "resume"]
    assert (switch.is_paused, switch.read_bytes) == (False, 0)
    switch.pause()
    switch.read_bytes = ROUND_BYTES
    assert not switch.yields(loop, go_on)  # what is paused for another reason goes on when that is over
    assert switch.resume()


def test_tcp_reads_a_bounded_number_of_bytes_a_round_when_a_long_request_comes(
    make_loop: Callable[[], asyncio.AbstractEventLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds, updated = [0], TcpServerConnection.buffer_updated

    def note(connection: TcpServerConnection, nbytes: int) -> None:
        if not rounds[-1]:
            asyncio.get_running_loop().call_soon(rounds.append, 0)
        rounds[-1] += nbytes
        updated(connection, nbytes)

    monkeypatch.setattr(TcpServerConnection, "buffer_updated", note)
    with serving(make_loop=make_loop) as running, running.peer() as peer:
        size = 8 << 20
        peer.send(request_head(Code.SEND_MESSAGES, size) + bytes(size))
        assert peer.receive()[0] != 0
        assert peer.request(Code.PING) == (0, b"")
    assert sum(rounds) > size
    assert max(rounds) <= ROUND_BYTES + SCRATCH_BYTES
