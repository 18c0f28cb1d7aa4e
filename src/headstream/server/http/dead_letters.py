"""Dead letters over HTTP: counts by reason, redrives and discards; each request handles a bounded part of one partition.

The server does nothing between two requests, so the caller can show the progress and stop at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from headstream.core.wire.shapes import IDENTIFIER
from headstream.errors import DecodeError, TopicNotFoundError

if TYPE_CHECKING:
    from headstream.client.client import Client
    from headstream.server.http.routes import ViewRequest

_MOST_OFFSET: Final = (1 << 63) - 1
_MOST_READ: Final = 5000
_MOST_REDRIVEN: Final = 1000
_MOST_PARTITION: Final = (1 << 32) - 1

READING: Final[dict[str, dict[str, Any]]] = {
    "from_offset": {"type": "integer", "minimum": 0, "default": 0, "description": "Offset at which to start."},
    "where": {"type": "string", "description": "Only dead letters that match this filter."},
}
"""Parameters of a count."""

_RANGE: Final[dict[str, dict[str, Any]]] = {
    **READING,
    "until_offset": {"type": ["integer", "null"], "minimum": 0, "description": "Offset at which to end."},
    "dry_run": {"type": "boolean", "default": False, "description": "Only count the dead letters."},
}
DISCARDING: Final[dict[str, dict[str, Any]]] = _RANGE
"""Body members of a discard request."""

REDRIVING: Final[dict[str, dict[str, Any]]] = {
    **_RANGE,
    "count": {
        "type": "integer",
        "minimum": 1,
        "maximum": _MOST_REDRIVEN,
        "default": 100,
        "description": "Maximum number of dead letters.",
    },
    "resumes": {
        "type": "boolean",
        "default": True,
        "description": "Whether to complete an interrupted redrive first; set false after the first request.",
    },
}
"""Body members of a redrive request."""


def count_letters(request: ViewRequest) -> dict[str, Any]:
    """Count dead letters by origin, group and reason; DecodeError for an invalid parameter."""
    from headstream.client.dead_letters.reading import ReasonCounts, read_dead_letters

    query = request.query
    text = query.get("from_offset", "0")
    if not (text.isascii() and text.isdecimal() and len(text) <= 19):
        raise DecodeError("from_offset must be a whole number", 0, where="query.from_offset")
    with request.open_client() as log:
        page = read_dead_letters(
            log, _topic(request, log), _partition(request), int(text), where=query.get("where") or None, count=_MOST_READ
        )
    found = ReasonCounts()
    for letter in page.letters:
        found.add(letter)
    place = {"next_offset": page.next_offset, "is_last": page.is_last, "scanned_count": page.scanned_count}
    return {**place, "reasons": found.to_documents()}


def redrive_letters(request: ViewRequest) -> dict[str, Any]:
    """Send dead letters back to their topics; GroupInUseError if another redrive processes the partition. DecodeError."""
    from headstream.client.dead_letters.reading import place_of_origin, read_dead_letters
    from headstream.client.dead_letters.redriving import Redrive

    body = request.body
    start, until, where = _whole(body, "from_offset", 0), _until(body), _where(body)
    count, resumes = _whole(body, "count", 100, 1, _MOST_REDRIVEN), _flag(body, "resumes", default=True)
    is_dry = _flag(body, "dry_run", default=False)
    with request.open_client() as log:
        topic, partition = _topic(request, log), _partition(request)
        if is_dry:
            page = read_dead_letters(log, topic, partition, start, until, where=where, count=_MOST_READ)
            foreign = sum(place_of_origin(letter) is None for letter in page.letters)
            counts = {"matched": len(page.letters), "redriven": 0, "resumed": 0, "foreign": foreign}
            return {"next_offset": page.next_offset, "is_last": page.is_last, **counts}
        redrive = Redrive(log, topic, where)
        next_offset, is_last = redrive.run_page(partition, start, until, count=count, resumes=resumes)
    counts = {name: getattr(redrive.counts, name) for name in ("matched", "redriven", "resumed", "foreign")}
    return {"next_offset": next_offset, "is_last": is_last, **counts}


def discard_letters(request: ViewRequest) -> dict[str, Any]:
    """Mark dead letters for deletion; DecodeError for an invalid member of the body."""
    from headstream.client.dead_letters import reading

    body = request.body
    start, until, where = _whole(body, "from_offset", 0), _until(body), _where(body)
    is_dry = _flag(body, "dry_run", default=False)
    with request.open_client() as log:
        topic, partition = _topic(request, log), _partition(request)
        page = reading.read_dead_letters(log, topic, partition, start, until, where=where, count=_MOST_READ)
        offsets = [letter.offset for letter in page.letters]
        if offsets and not is_dry:
            reading.discard_dead_letters(log, topic, {partition: offsets})
    done = 0 if is_dry else len(offsets)
    return {"next_offset": page.next_offset, "is_last": page.is_last, "matched": len(offsets), "discarded": done}


def _topic(request: ViewRequest, log: Client) -> str:
    """Return the full name of the topic that the path identifies by names or ids."""
    stream = IDENTIFIER.from_url_text(request.path["stream_id"], "path.stream_id")
    topic = IDENTIFIER.from_url_text(request.path["topic_id"], "path.topic_id")
    if isinstance(stream, str) and isinstance(topic, str):
        return f"{stream}/{topic}"
    found = log.transport.topics.find(stream, topic)
    if found is None:
        raise TopicNotFoundError(f"there is no topic {topic} in the stream {stream}")
    return f"{found.stream}/{found.name}"


def _partition(request: ViewRequest) -> int:
    text = request.path["partition_id"]
    if not (text.isascii() and text.isdecimal() and len(text) <= 10 and int(text) <= _MOST_PARTITION):
        raise DecodeError("partition_id must be the number of a partition", 0, where="path.partition_id")
    return int(text)


def _whole(body: Mapping[str, Any], name: str, default: int, least: int = 0, most: int = _MOST_OFFSET) -> int:
    value = body.get(name, default)
    if type(value) is not int or not least <= value <= most:
        raise DecodeError(f"{name} must be a whole number from {least} to {most}", 0, where=f"body.{name}")
    return value


def _until(body: Mapping[str, Any]) -> int | None:
    return None if body.get("until_offset") is None else _whole(body, "until_offset", 0)


def _where(body: Mapping[str, Any]) -> str | None:
    value = body.get("where", "")
    if not isinstance(value, str):
        raise DecodeError("where must be a string", 0, where="body.where")
    return value or None


def _flag(body: Mapping[str, Any], name: str, *, default: bool) -> bool:
    value = body.get(name, default)
    if not isinstance(value, bool):
        raise DecodeError(f"{name} must be true or false", 0, where=f"body.{name}")
    return value
