"""A temporary server whose start is interrupted leaves nothing."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from headstream.testing.temporary_server import TemporaryServer


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the collector closes the log file
def test_start_interrupted_at_any_instruction_leaves_no_directory(tmp_path: Path) -> None:
    launch = TemporaryServer._launch.__code__

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_opcodes = launch in (frame.f_code, frame.f_back and frame.f_back.f_code)
        if event == "opcode" and next(instructions) == interrupted_at:
            raise KeyboardInterrupt
        return trace

    for interrupted_at in itertools.count():  # noqa: B007 - trace() reads it
        instructions, before = itertools.count(), sys.gettrace()
        sys.settrace(trace)
        with pytest.raises((KeyboardInterrupt, NotImplementedError)) as raised:  # the base class has no command
            TemporaryServer("Debezium engine", tmp_path).start()
        sys.settrace(before)
        assert list(tmp_path.iterdir()) == []
        if raised.type is NotImplementedError:
            break
    assert interrupted_at > 50
