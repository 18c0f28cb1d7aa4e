"""Redacts errors for clients: replaces paths on the server with topic names. The server's log contains the full paths."""

from __future__ import annotations

import copy
import re
from contextlib import suppress
from typing import Final

from headstream.core.model.identifiers import TopicName
from headstream.errors import HeadstreamError
from headstream.log.log import Log
from headstream.log.segments.layout import STREAMS_NAME

_LOG: Final = "the server's log"
_TOPIC: Final = re.compile(rf"/{STREAMS_NAME}/(\d+)/(\d+)(?:/(\d+)(?!\d))?")


def redact(error: HeadstreamError, log: Log) -> HeadstreamError:
    """Return the error if it contains no file paths, else a copy with topic names instead of paths."""
    if log.root not in f"{error.where} {error.what} {error.advice}":
        return error
    redacted = copy.copy(error)
    redacted.where = _name(error.where, log) if error.where else None
    redacted.what = _without_paths(error.what, log)
    redacted.advice = _without_paths(error.advice, log) if error.advice else None
    return redacted


def _name(where: str, log: Log) -> str | None:
    """Return the topic, partition or log to which a path belongs; None for the log's root, which adds no information."""
    path = where.removeprefix(log.root)
    if path == where or not path:
        return where if path else None
    match = _TOPIC.match(path)
    if match is None:
        return _LOG
    topic = _topic_at(int(match[1]), int(match[2]), log)
    if topic is None:
        return _LOG
    return f"{topic}, partition {match[3]}" if match[3] else str(topic)


def _topic_at(stream_number: int, number: int, log: Log) -> TopicName | None:
    """Return the topic whose directory has these numbers; None if it was deleted."""
    with suppress(HeadstreamError):  # the catalog itself can be the cause of the error
        for stream in log.snapshot().values():
            if stream.number == stream_number:
                return next((topic.name for topic in stream.topics.values() if topic.number == number), None)
    return None


def _without_paths(text: str, log: Log) -> str:
    """Return a string without the log's paths; the name of a log in memory is kept."""
    return text if log.is_memory else re.sub(rf"{re.escape(log.root)}[^\s,;:'\")]*", _LOG, text)
