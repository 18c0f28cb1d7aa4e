"""The process of a server: its event loop, its memory, and the signals that end it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import Any, Final

from headstream.server.app import Server
from headstream.server.config import ServerConfig
from headstream.server.logs import note, start_logging
from headstream.server.memory import keep_memory

__all__ = ["run"]

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SAME_S: Final = 0.5
"""A process that is ended together with its group gets one signal twice: no reason to end at once."""

_SWITCH_S: Final = 0.0003
"""How long a busy thread may keep the interpreter from the event loop, which lets go of it with each write to a file: by
Python's own 5 ms, one client that lists many topics all the time leaves others a sixth of their sends; by this, two fifths."""


def run(config: ServerConfig, on_ready: Callable[[Server], None]) -> None:
    """Serve until SIGTERM or SIGINT, and return when everything is done and synced; a second signal ends it at once.

    Args:
        config: All that it is told.
        on_ready: Called once it answers.

    Raises:
        HeadstreamError: it cannot start, or what was acknowledged could not be synced.
    """
    start_logging(config.log_level, config.log_form)
    _open_many_files()
    keep_memory()
    sys.setswitchinterval(_SWITCH_S)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config, on_ready))


async def _serve(config: ServerConfig, on_ready: Callable[[Server], None]) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_note_exception)
    is_over = asyncio.Event()
    again_s = 0.0

    def end(number: signal.Signals) -> None:
        nonlocal again_s
        if not is_over.is_set():
            note(logging.INFO, "signal", signal=number.name)
            again_s = loop.time() + _SAME_S
            is_over.set()
        elif loop.time() > again_s:
            note(logging.WARNING, "ended at once", signal=number.name)
            os._exit(128 + number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, end, number)
    server = Server(config)
    await server.start()
    gc.freeze()  # what is there now stays: it is not looked through again
    gc.enable()
    try:
        on_ready(server)
        await is_over.wait()
    finally:
        await server.stop()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return what makes the quicker event loop, where it is installed."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _note_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    note(logging.ERROR, "fault in the server", context.get("exception"), what=context["message"])


def _open_many_files() -> None:
    """Let this process have as many files and connections open as the system allows at all."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
