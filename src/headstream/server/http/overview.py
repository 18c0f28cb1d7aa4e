"""Views of a log: counts and traffic, topics, groups, pipelines, and the current user."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from headstream.core.wire.commands.system import GetStats, Stats
from headstream.core.wire.commands.users import GetUser, UserDetails
from headstream.core.wire.extensions.groups import ListGroupLags
from headstream.core.wire.extensions.topic_options import GetIdentity, GetOpenTopic, ListOpenTopics, OpenTopic
from headstream.errors import NotFoundError, PermissionDeniedError
from headstream.version import __version__

if TYPE_CHECKING:
    from headstream.server.http.routes import ViewRequest

_OMITTED: Final = ("caches", "server_semver")
"""Members of the counts that an overview omits."""


def survey(request: ViewRequest) -> dict[str, Any]:
    """Return counts and memory use of a server, and traffic per transport since the start."""
    stats: Stats = request.ask(GetStats())
    transports = []
    for traffic in request.traffic:
        commands = list(traffic.commands.values())
        refused = sum(sum(command.refused.values()) for command in commands)
        transports.append(
            {
                "transport": traffic.transport,
                "connections": traffic.connections,
                "refused_connections": traffic.refused_connections,
                "received_bytes": traffic.received_bytes,
                "sent_bytes": traffic.sent_bytes,
                "requests": sum(command.done for command in commands) + refused,
                "refused_requests": refused,
            }
        )
    counts = {name: value for name, value in asdict(stats).items() if name not in _OMITTED}
    return {"time_us": _now_us(), **counts, "transports": transports}


def list_visible_topics(request: ViewRequest) -> dict[str, Any]:
    """Return the topics that a user can see: all topics, or the topics that the user's permissions name."""
    return {"time_us": _now_us(), "topics": [topic.spell() for topic in _visible_topics(request)]}


def list_group_lags(request: ViewRequest) -> dict[str, Any]:
    """Return the groups, with lag, of all topics that a user is allowed to see."""
    groups = []
    for topic in _visible_topics(request):
        with suppress(NotFoundError, PermissionDeniedError):  # just deleted, or the user is only allowed to poll
            for group in request.ask(ListGroupLags(topic.stream, topic.name)):
                groups.append({"stream": topic.stream, "topic": topic.name, **group.spell()})
    return {"time_us": _now_us(), "groups": groups}


def list_pipelines(request: ViewRequest) -> dict[str, Any]:
    """Return the reports of the Replicate pipelines; requires the right to read the server."""
    request.check_server_right()
    return {"time_us": _now_us(), "pipelines": request.pipelines.read()}


def describe_session(request: ViewRequest) -> dict[str, Any]:
    """Return a request's user with permissions, the server's version, and the log's identity."""
    user: UserDetails | None = request.ask(GetUser(request.user_id))
    return {
        "time_us": _now_us(),
        "version": __version__,
        "identity": request.ask(GetIdentity()).uuid,
        "user": None if user is None else user.spell(),
        "decodes_avro": request.pipelines.explain_avro is not None,
    }


def _visible_topics(request: ViewRequest) -> list[OpenTopic]:
    try:
        return list(request.ask(ListOpenTopics()))
    except PermissionDeniedError:
        user: UserDetails | None = request.ask(GetUser(request.user_id))
    found = []
    permissions = None if user is None else user.permissions
    for stream, rights in sorted(permissions.streams.items()) if permissions is not None else ():
        try:
            found += request.ask(ListOpenTopics(stream))
        except NotFoundError:
            continue
        except PermissionDeniedError:
            found += [topic for number in sorted(rights.topics) if (topic := _topic(request, stream, number)) is not None]
    return found


def _topic(request: ViewRequest, stream: int, topic: int) -> OpenTopic | None:
    found: OpenTopic | None = None
    with suppress(NotFoundError, PermissionDeniedError):  # the topic was deleted meanwhile: permissions outlive topics
        found = request.ask(GetOpenTopic(stream, topic))
    return found


def _now_us() -> int:
    return time.time_ns() // 1000
