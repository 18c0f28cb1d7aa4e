"""Reading: whoever reads for a connection stops when its transport closes, and nobody else begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from headstream.server.reading import Reading


class Transport:
    """What Reading asks of a transport; notes what it is told."""

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
        self.quiet: list[object] = []

    def begin(self, quiet: object) -> None:
        self.quiet.append(quiet)

    def end(self, quiet: object) -> None:
        self.quiet.remove(quiet)


@pytest.mark.parametrize("stop", [Reading.pause, Reading.is_over, Reading.go_on_alone, Reading.end])
@pytest.mark.parametrize("closing", [False, True])
def test_intake_reads_no_more_for_a_connection_that_stops_or_closes(
    monkeypatch: pytest.MonkeyPatch, stop: Callable[[Reading], object], closing: bool
) -> None:
    monkeypatch.setattr("headstream.server.reading._SHORT_REQUESTS", 1)
    monkeypatch.setattr("headstream.server.reading.Quiet", lambda *given: given)
    transport, intake = Transport(), Intake()
    anything: Any = object()
    reading = Reading(cast(Any, transport), anything, cast(Any, intake))
    reading.note(anything, is_short=True)
    assert len(intake.quiet) == 1
    transport.closing = closing
    stop(reading)
    assert len(intake.quiet) == (1 if stop is Reading.is_over and not closing else 0)
    assert transport.said == (["pause", "resume"] if stop is Reading.go_on_alone and not closing else ["pause"])
    transport.closing = True
    reading.end()
    reading.note(anything, is_short=True)
    assert not intake.quiet
