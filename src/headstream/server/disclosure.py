"""What a client is told of an error: which topic it is about, never where on this machine that lies. The log tells all."""

from __future__ import annotations

import copy
import re
from contextlib import suppress
from typing import Final

from headstream.errors import HeadstreamError
from headstream.log.log import Log
from headstream.model.identifiers import TopicName
from headstream.segments.layout import STREAMS_NAME

__all__ = ["disclose"]

_LOG: Final = "the server's log"
_TOPIC: Final = re.compile(rf"/{STREAMS_NAME}/(\d+)/(\d+)(?:/(\d+)(?!\d))?")


def disclose(error: HeadstreamError, log: Log) -> HeadstreamError:
    """Return an error as a client may have it: the error itself, or a copy that names a topic for the path of a file.

    Args:
        error: Why a request fails.
        log: The server's.
    """
    if log.root not in f"{error.where} {error.what} {error.advice}":
        return error
    told = copy.copy(error)
    told.where = _name(error.where, log) if error.where else None
    told.what = _without_paths(error.what, log)
    told.advice = _without_paths(error.advice, log) if error.advice else None
    return told


def _name(where: str, log: Log) -> str | None:
    """Return what lies at a place; None for all of the log, which says nothing that the error does not."""
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
    """Return whose directory has these numbers; None where it is gone."""
    with suppress(HeadstreamError):  # the catalog itself may be what has failed
        for stream in log.snapshot().values():
            if stream.number == stream_number:
                return next((topic.name for topic in stream.topics.values() if topic.number == number), None)
    return None


def _without_paths(text: str, log: Log) -> str:
    """Return a text in which no file of the log is named; the "directory" of a log in memory is a plain word."""
    return text if log.is_memory else re.sub(rf"{re.escape(log.root)}[^\s,;:'\")]*", _LOG, text)
