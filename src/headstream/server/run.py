"""The process of a server: event loop, memory settings, and signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from headstream.log.system.malloc import configure_malloc
from headstream.server.app import ServerApp
from headstream.server.config.config import ServerConfig
from headstream.server.reporting.logs import note, start_logging
from headstream.server.resources.collector import Collector

if TYPE_CHECKING:
    from headstream.server.http.pipeline_reports import PipelineReports

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_SAME_S: Final = 0.5
"""A repeated signal within this time, seconds, is ignored, because a signal to a process group can arrive twice."""

_SWITCH_S: Final = 0.0003
"""Maximum time that a busy thread holds the GIL while the event loop waits, as after each file write, seconds. With Python's
default of 5 ms, one client that lists many topics in a loop reduces other clients' send rate to a sixth; now, to two fifths."""


def run(config: ServerConfig, on_ready: Callable[[ServerApp], None], pipelines: PipelineReports | None = None) -> None:
    """Serve until SIGTERM or SIGINT, then drain, sync and return; a second signal exits immediately."""
    start_logging(config.log_level, config.log_form)
    _open_many_files()
    configure_malloc()
    sys.setswitchinterval(_SWITCH_S)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(config, on_ready, pipelines))


async def _serve(config: ServerConfig, on_ready: Callable[[ServerApp], None], pipelines: PipelineReports | None) -> None:
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
            note(logging.WARNING, "exiting immediately", signal=number.name)
            os._exit(128 + number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, end, number)
    server = ServerApp(config, pipelines)
    await server.start()
    collector = Collector(loop)
    collector.start()
    try:
        on_ready(server)
        await is_over.wait()
    finally:
        collector.stop()
        await server.stop()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def _note_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    note(logging.ERROR, "internal error", context.get("exception"), what=context["message"])


def _open_many_files() -> None:
    """Raise the limit of open files to the system's maximum."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
