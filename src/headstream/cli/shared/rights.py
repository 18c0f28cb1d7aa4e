"""Rights on the command line: `poll_messages,send_messages`, `shop=read_stream` or `shop/orders=poll_messages`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headstream.core.wire.fields import fields_of
from headstream.errors import AccessError, InvalidInputError, NotFoundError

if TYPE_CHECKING:
    from headstream.client.client import Client

RIGHTS_HELP: Final = (
    "Permissions of the user, repeatable: RIGHT,... everywhere, STREAM=RIGHT,..., or STREAM/TOPIC=RIGHT,...; `all` is "
    "every right at that level. Rights everywhere: "
    f"{', '.join(field.name for field in fields_of(GlobalPermissions))}."
)


@dataclass(frozen=True, slots=True)
class Grant:
    """Names of rights on a stream, on `stream/topic`, or, if the place is empty, on everything."""

    place: str
    rights: tuple[str, ...]


def parse_grant(text: str) -> Grant:
    """Parse `RIGHT,...`, `STREAM=RIGHT,...` or `STREAM/TOPIC=RIGHT,...`; InvalidInputError if a right is unknown."""
    place, equals, names = text.rpartition("=")
    kind = TopicPermissions if "/" in place else StreamPermissions if equals else GlobalPermissions
    known = tuple(field.name for field in fields_of(kind))
    rights = known if names.strip() == "all" else tuple(name.strip() for name in names.split(","))
    for name in rights:
        if name not in known:
            level = "topic" if "/" in place else "stream" if equals else "global"
            raise InvalidInputError(f"there is no {level} right {name!r}", advice=f"Use one of {', '.join(known)}, or all")
    if equals and not place:
        raise InvalidInputError(f"{text!r} has no stream before '='", advice="Write STREAM=RIGHT, for example shop=read_stream")
    return Grant(place, rights)


def build_permissions(log: Client, grants: Iterable[Grant]) -> Permissions | None:
    """Convert grants to permissions, None if there are no grants; NotFoundError if a stream or topic does not exist."""
    everywhere = GlobalPermissions()
    streams: dict[int, StreamPermissions] = {}
    topics: dict[int, dict[int, TopicPermissions]] = {}
    found: dict[str, dict[str, Any]] = {}
    for grant in grants:
        found.setdefault(grant.place, {}).update(dict.fromkeys(grant.rights, True))
    for place, rights in found.items():
        if not place:
            everywhere = GlobalPermissions(**rights)
        elif "/" not in place:
            streams[log.stream(place).id] = StreamPermissions(**rights)
        else:
            stream = log.stream(place.partition("/")[0]).id
            topics.setdefault(stream, {})[log.topic(place).id] = TopicPermissions(**rights)
    for stream, of_topics in topics.items():
        whole = _format_rights(streams[stream]) if stream in streams else []
        chosen: dict[str, Any] = dict.fromkeys(whole, True)
        streams[stream] = StreamPermissions(**chosen, topics=of_topics)
    return Permissions(everywhere, streams) if found else None


def format_permissions(permissions: Permissions | None, log: Client) -> list[str]:
    """Format permissions in the form that parse_grant() reads; deleted or invisible streams and topics are shown as ids, `#7`."""
    if permissions is None:
        return []
    streams, topics = _names(log, permissions.streams)
    spelled = [",".join(_format_rights(permissions.everywhere))]
    for stream, rights in sorted(permissions.streams.items()):
        name = streams.get(stream, f"#{stream}")
        spelled.append(f"{name}={','.join(_format_rights(rights))}")
        for topic, more in sorted(rights.topics.items()):
            spelled.append(f"{topics.get((stream, topic), f'{name}/#{topic}')}={','.join(_format_rights(more))}")
    return [text for text in spelled if text and not text.endswith("=")]


def _names(log: Client, wanted: Iterable[int]) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
    """Return the stream names by stream id, and the topic names by stream id and topic id."""
    numbers = set(wanted)
    if not numbers:
        return {}, {}
    try:
        streams = {stream.id: stream.name for stream in log.streams() if stream.id in numbers}
        topics = {(number, topic.id): topic.full_name for number, name in streams.items() for topic in log.topics(name)}
    except (AccessError, NotFoundError):
        return {}, {}
    return streams, topics


def _format_rights(rights: Any) -> list[str]:
    return [field.name for field in fields_of(type(rights)) if getattr(rights, field.name)]
