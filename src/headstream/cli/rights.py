"""Rights on the command line: `poll_messages,send_messages`, or `shop=read_stream`, or `shop/orders=poll_messages`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from headstream.errors import AccessError, InvalidInputError, NotFoundError
from headstream.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headstream.wire.fields import fields_of

if TYPE_CHECKING:
    from headstream.client.client import Client

__all__ = ["RIGHTS_HELP", "build_permissions", "spell_permissions"]

RIGHTS_HELP: Final = (
    "What the user may do, any number of times: RIGHT,... everywhere, STREAM=RIGHT,..., or STREAM/TOPIC=RIGHT,...; `all` is "
    "every right there. Everywhere: "
    f"{', '.join(field.name for field in fields_of(GlobalPermissions))}."
)


def build_permissions(log: Client, texts: Iterable[str]) -> Permissions | None:
    """Return the permissions that texts spell, None where there is none.

    Args:
        log: Where streams and topics are looked up, since rights are for their numbers.
        texts: `RIGHT,...`, `STREAM=RIGHT,...` or `STREAM/TOPIC=RIGHT,...`.

    Raises:
        InvalidInputError: there is no such right.
        NotFoundError: there is no such stream or topic.
    """
    everywhere = GlobalPermissions()
    streams: dict[int, StreamPermissions] = {}
    topics: dict[int, dict[int, TopicPermissions]] = {}
    found = list(texts)
    for text in found:
        place, equals, names = text.partition("=")
        if not equals:
            everywhere = GlobalPermissions(**_rights(GlobalPermissions, text))
        elif "/" not in place:
            streams[log.stream(place).id] = StreamPermissions(**_rights(StreamPermissions, names))
        else:
            stream = log.stream(place.partition("/")[0]).id
            topics.setdefault(stream, {})[log.topic(place).id] = TopicPermissions(**_rights(TopicPermissions, names))
    for stream, rights in topics.items():
        whole = _spell_rights(streams[stream]) if stream in streams else []
        chosen: dict[str, Any] = dict.fromkeys(whole, True)
        streams[stream] = StreamPermissions(**chosen, topics=rights)
    return Permissions(everywhere, streams) if found else None


def spell_permissions(permissions: Permissions | None, log: Client) -> list[str]:
    """Return permissions as build_permissions() reads them.

    Args:
        permissions: Rights by the numbers of streams and topics.
        log: Where the names of those are looked up; what was deleted, or may not be seen, is shown by its number, `#7`.
    """
    if permissions is None:
        return []
    streams, topics = _names(log, permissions.streams)
    spelled = [",".join(_spell_rights(permissions.everywhere))]
    for stream, rights in sorted(permissions.streams.items()):
        name = streams.get(stream, f"#{stream}")
        spelled.append(f"{name}={','.join(_spell_rights(rights))}")
        for topic, more in sorted(rights.topics.items()):
            spelled.append(f"{topics.get((stream, topic), f'{name}/#{topic}')}={','.join(_spell_rights(more))}")
    return [text for text in spelled if text and not text.endswith("=")]


def _names(log: Client, wanted: Iterable[int]) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
    """Return the names of streams, and of topics by the numbers of both."""
    numbers = set(wanted)
    if not numbers:
        return {}, {}
    try:
        streams = {stream.id: stream.name for stream in log.streams() if stream.id in numbers}
        topics = {(number, topic.id): topic.full_name for number, name in streams.items() for topic in log.topics(name)}
    except (AccessError, NotFoundError):
        return {}, {}
    return streams, topics


def _rights(kind: type[Any], text: str) -> dict[str, Any]:
    known = [field.name for field in fields_of(kind)]
    names = known if text.strip() == "all" else [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise InvalidInputError(f"there is no right {name!r} here", advice=f"There is {', '.join(known)}")
    return dict.fromkeys(names, True)


def _spell_rights(rights: Any) -> list[str]:
    return [field.name for field in fields_of(type(rights)) if getattr(rights, field.name)]
