"""Hops: the header hs.mirror, which lists the logs from which a message was copied.

    <log>/<stream>/<topic>/<partition>[.<generation>]/<offset>, <log>, <log>, …

The first entry is the log from which the message was copied, with the message's position in that log. The other entries are
earlier logs, the newest first. A log's name is its UUID, or the name in the mirror's options. A generation distinguishes a
partition from partitions of the same name before a purge.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headstream.core.model.headers import Headers
from headstream.core.model.reserved import MIRROR_HEADER
from headstream.errors import InvalidOptionError

_MAX_BYTES: Final = 255
"""Maximum size of a header value in a topic with limits `iggy`. The oldest logs are dropped from a longer value."""


class Hop(NamedTuple):
    """The position of a message in the log from which it was copied; the partition's generation is 0 if unknown."""

    log: str
    topic: str
    partition: int
    generation: int
    offset: int


def check_log_name(name: str) -> str:
    """Return a log's name; InvalidOptionError if it is empty or too long, or contains a slash, comma or space."""
    if not name or len(name.encode()) > 64 or any(character in name for character in "/, "):
        raise InvalidOptionError(
            f"{name!r} is not a valid log name", advice="Use 1 to 64 bytes without slashes, commas or spaces, as in frankfurt-1"
        )
    return name


def newest_hop(headers: Headers) -> Hop | None:
    """Return the position from which a message was copied, or None if the message was not mirrored."""
    found = headers.get(MIRROR_HEADER)
    if found is None:
        return None
    text = str(found.value).partition(", ")[0]
    try:
        log, stream, topic, place, offset = text.split("/")
        partition, _, generation = place.partition(".")
        return Hop(log, f"{stream}/{topic}", int(partition), int(generation or 0), int(offset))
    except ValueError:
        return None


def logs_passed(headers: Headers) -> list[str]:
    """Return the names of the logs through which a message was mirrored, the newest first."""
    found = headers.get(MIRROR_HEADER)
    return [] if found is None else [part.partition("/")[0] for part in str(found.value).split(", ")]


def with_hop(headers: Headers, hop: Hop) -> Headers:
    """Return a message's headers with a hop added before the existing hops."""
    place = f"{hop.partition}.{hop.generation}" if hop.generation else str(hop.partition)
    text = f"{hop.log}/{hop.topic}/{place}/{hop.offset}"
    for log in logs_passed(headers):
        if len(text.encode()) + 2 + len(log.encode()) > _MAX_BYTES:
            break
        text += f", {log}"
    return headers.without(MIRROR_HEADER).with_((MIRROR_HEADER, text))
