"""Numbered: resolves streams and topics given by id, as in `log.poll("1/1")`.

The rules for all calls of a client and for the command line:

- A number in `stream/topic` is looked up as a name first, then as an id. `1/1` is tried as two names, as stream name and topic
  id, as stream id and topic name, then as two ids.
- Creation always takes names: a number in `create_topic("1/1")` is a name.
- Over HTTP a number is always an id, as the routes of Iggy's HTTP API define.

A name that is not a number needs no additional request; a number needs one or more requests per call.
"""

from __future__ import annotations

import itertools

from headstream.client.arguments import topic_name
from headstream.client.transports.transport import Transport
from headstream.core.model.identifiers import TopicName, parse_number
from headstream.errors import InvalidInputError, PermissionDeniedError, StreamNotFoundError, TopicNotFoundError


def find_topic_name(transport: Transport, topic: str | TopicName) -> TopicName:
    """Return the name of a topic given by names or ids; InvalidInputError, TopicNotFoundError if a number is unknown."""
    name = topic_name(topic, transport)
    streams, topics = _meanings(name.stream), _meanings(name.topic)
    if len(streams) == len(topics) == 1:
        return name
    denied: PermissionDeniedError | None = None
    for meaning in itertools.product(streams, topics):
        try:
            found = transport.topics.find(*meaning)
        except PermissionDeniedError as error:
            denied = error
        else:
            if found is not None:
                return TopicName(found.stream, found.name)
    raise denied or TopicNotFoundError(
        f"there is no topic {str(name)!r}, neither by name nor by id",
        advice="List the topics with log.topics(), or create the topic",
    )


def find_stream_name(transport: Transport, name: str) -> str:
    """Return the name of a stream given by name or id; InvalidInputError, StreamNotFoundError if a number is unknown."""
    if not isinstance(name, str):
        raise InvalidInputError(f"a stream must be a name or an id as a string, not {name!r}")
    meanings = _meanings(name)
    if len(meanings) == 1:
        return name
    denied: PermissionDeniedError | None = None
    for stream in meanings:
        try:
            found = transport.streams.find(stream)
        except PermissionDeniedError as error:
            denied = error
        else:
            if found is not None:
                return found.name
    raise denied or StreamNotFoundError(
        f"there is no stream {name!r}, neither by name nor by id",
        advice="List the streams with log.streams(), or create the stream",
    )


def _meanings(part: str) -> tuple[str | int, ...]:
    """Return the possible meanings of a name's part (name, id), in order of precedence."""
    number = parse_number(part)
    return (part,) if number is None else (part, number)
