"""Reports of Replicate pipelines over HTTP: read from their checkpoints by functions that whoever starts the server gives."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headstream.broker.cached_value import CachedValue
from headstream.errors import HeadstreamError
from headstream.wire.commands.system import ListClients

if TYPE_CHECKING:
    from headstream.server.http.views import ViewRequest

__all__ = ["NO_PIPELINES", "PipelineReports", "list_pipelines"]

_KEPT_S: Final = 1.0
"""How long a report is kept: all pages together read a checkpoint once in this time. Seconds."""


class PipelineReports:
    """The newest reports of pipelines; any thread.

    Args:
        readers: The name of each pipeline, and a function that returns its report, a JSON object.
        needs_right: Whether only users with the right to read the server (`read_servers`) see them.
    """

    def __init__(self, readers: Mapping[str, Callable[[], dict[str, Any]]], *, needs_right: bool) -> None:
        self.needs_right = needs_right
        self._readers = {name: (CachedValue[dict[str, Any]](kept_s=_KEPT_S), read) for name, read in readers.items()}

    def read(self) -> list[dict[str, Any]]:
        """Return a report of each pipeline, or why it cannot be read."""
        return [{"checkpoint": name, **kept.get(partial(_try, read))} for name, (kept, read) in self._readers.items()]


NO_PIPELINES: Final = PipelineReports({}, needs_right=True)


def list_pipelines(request: ViewRequest) -> dict[str, Any]:
    """Return the reports of the registered pipelines.

    Args:
        request: The request.

    Raises:
        PermissionDeniedError: the user has no right to read the server.
    """
    if request.pipelines.needs_right:
        request.ask(ListClients())  # refused without the right to read the server; GetStats is allowed to everybody
    return {"time_us": time.time_ns() // 1000, "pipelines": request.pipelines.read()}


def _try(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    read_us = time.time_ns() // 1000
    try:
        return {"read_us": read_us, "error": None, "report": read()}
    except (HeadstreamError, OSError) as error:
        return {"read_us": read_us, "error": str(error), "report": None}
