"""Hops: the header hs.mirror, the origins of a mirrored message.

    <log>/<stream>/<topic>/<partition>[.<generation>]/<offset>, <log>, <log>, …

The first is the source log of the copy, with the message's place there; the further logs are earlier hops, the
newest first. A log is named by its UUID or as in the mirror's options. Generations distinguish a partition from earlier
partitions of its name, before a purge.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headstream.core.model.headers import Headers
from headstream.core.model.reserved import MIRROR_HEADER
from headstream.errors import InvalidOptionError

_MAX_BYTES: Final = 255
"""A header value of a topic with limits `iggy`. The oldest logs are dropped from a longer one: a ring of mirrors has fewer."""


class Hop(NamedTuple):
    """The place of a message in the log that it was copied from; the partition's generation is 0 if unknown."""

    log: str
    topic: str
    partition: int
    generation: int
    offset: int


def check_log_name(name: str) -> str:
    """Return the name of a log, checked for a hop; InvalidOptionError: empty, too long, or with a slash, comma or space."""
    if not name or len(name.encode()) > 64 or any(character in name for character in "/, "):
        raise InvalidOptionError(
            f"{name!r} is not a valid log name", advice="Use 1 to 64 bytes without slash, comma and space: frankfurt-1"
        )
    return name


def newest_hop(headers: Headers) -> Hop | None:
    """Return the place from which a message was copied, or None if it was not mirrored."""
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
    """Return the names of the logs that a message has passed, the newest first."""
    found = headers.get(MIRROR_HEADER)
    return [] if found is None else [part.partition("/")[0] for part in str(found.value).split(", ")]


def with_hop(headers: Headers, hop: Hop) -> Headers:
    """Return a message's headers, with the hops so far, with one more hop."""
    place = f"{hop.partition}.{hop.generation}" if hop.generation else str(hop.partition)
    text = f"{hop.log}/{hop.topic}/{place}/{hop.offset}"
    for log in logs_passed(headers):
        if len(text.encode()) + 2 + len(log.encode()) > _MAX_BYTES:
            break
        text += f", {log}"
    return headers.without(MIRROR_HEADER).with_((MIRROR_HEADER, text))
