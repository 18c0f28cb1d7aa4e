"""Reports of Replicate pipelines for the console and dashboards; each report is cached for a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

from headstream.broker.cached_value import CachedValue
from headstream.errors import HeadstreamError

Explain: TypeAlias = Callable[[bytes], dict[str, Any]]
"""Returns a message as a JSON object; its member `fault` is the reason if it cannot be read."""

_KEPT_S: Final = 1.0
"""Time for which a report is cached, seconds; all pages together read a checkpoint once per interval."""


class PipelineReports:
    """The newest reports of pipelines; thread-safe.

    Args:
        readers: Pipeline name -> function that returns the pipeline's report, a JSON object.
        needs_right: Whether only users with the right to read the server (`read_servers`) see the reports.
        explain: Decodes a Replicate message with the schemas of the pipelines; None if there are no pipelines.
        explain_avro: Decodes a payload that names its Avro schema; None if no schemas are known.
    """

    def __init__(
        self,
        readers: Mapping[str, Callable[[], dict[str, Any]]],
        *,
        needs_right: bool,
        explain: Explain | None = None,
        explain_avro: Explain | None = None,
    ) -> None:
        self.needs_right = needs_right
        self.explain = explain
        self.explain_avro = explain_avro
        self._readers = {name: (CachedValue[dict[str, Any]](kept_s=_KEPT_S), read) for name, read in readers.items()}

    def read(self) -> list[dict[str, Any]]:
        """Return the report of each pipeline, or the reason why the report cannot be read."""
        return [{"checkpoint": name, **kept.get(partial(_try, read))} for name, (kept, read) in self._readers.items()]


NO_PIPELINES: Final = PipelineReports({}, needs_right=True)


def _try(read: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    read_us = time.time_ns() // 1000
    try:
        return {"read_us": read_us, "error": None, "report": read()}
    except (HeadstreamError, OSError) as error:
        return {"read_us": read_us, "error": str(error), "report": None}
