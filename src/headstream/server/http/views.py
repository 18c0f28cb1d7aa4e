"""Views: routes of HTTP that are made of commands, for people and dashboards.

    GET /open/overview            what the server does: counts, memory, bytes by transport
    GET /open/topics/visible      the topics that the user is allowed to see
    GET /open/group-lags          the groups of all of them
    GET .../messages/browse       messages with typed headers, payloads cut at a limit, and a search
    GET .../messages/{offset}/payload    a whole payload, as a file
    GET /console/session          the logged-in user, and the server's version

A view runs commands in the name of its user, so that it shows nothing that the commands would refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from headstream.errors import DecodeError
from headstream.server.fast_path.traffic import Traffic
from headstream.server.http.browsing import browse, download
from headstream.server.http.replies import Reply, json_reply
from headstream.server.http.surveys import describe_session, list_group_lags, list_visible_topics, survey
from headstream.wire.records import Command
from headstream.wire.routes import decode_path_parameter

__all__ = ["VIEWS", "VIEW_BYTES", "FoundView", "View", "ViewRequest", "Views"]

VIEW_BYTES: Final = 8 << 20
"""Memory reserved for a view: the messages that it reads, twice."""

Ask: TypeAlias = Callable[[Command[Any]], Any]


class ViewRequest(NamedTuple):
    """A request for a view.

    Args:
        ask: Runs a command in the name of the user.
        user_id: The user, by id or name.
        path: The parameters of the path.
        query: The parameters of the query.
        traffic: Counters of each transport.
    """

    ask: Ask
    user_id: int | str
    path: Mapping[str, str]
    query: Mapping[str, str]
    traffic: Sequence[Traffic] = ()


class View(NamedTuple):
    """A route.

    Args:
        path: Its path; a parameter is in braces.
        about: Its description, a sentence.
        answer: Returns a JSON document or the reply; on a worker thread.
        query: Its query's parameters, each with its JSON Schema.
        content_type: Content type of the reply.
    """

    path: str
    about: str
    answer: Callable[[ViewRequest], dict[str, Any] | Reply]
    query: Mapping[str, Mapping[str, Any]] = {}
    content_type: str = "application/json"


class FoundView(NamedTuple):
    """A view, and the decoded parameters of its path."""

    view: View
    path: dict[str, str]


_PARTITION: Final = "/streams/{stream_id}/topics/{topic_id}/partitions/{partition_id}"
_BROWSING: Final[dict[str, dict[str, Any]]] = {
    "kind": {"type": "string", "enum": ["offset", "timestamp", "first", "last"], "default": "first"},
    "value": {"type": "integer", "minimum": 0, "default": 0, "description": "The offset, or microseconds since 1970 UTC."},
    "count": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
    "payload_bytes": {"type": "integer", "minimum": 0, "maximum": 65_536, "default": 1024},
    "contains": {"type": "string", "description": "Only messages with this text in payload, key or headers."},
    "where": {"type": "string", "description": "Only messages that match this filter."},
}

VIEWS: Final = (
    View("/open/overview", "Return the counts of the server, its memory and its traffic.", survey),
    View(
        "/open/topics/visible",
        "Return the topics that the user is allowed to see.",
        list_visible_topics,
    ),
    View("/open/group-lags", "Return the groups of these topics, with their lags.", list_group_lags),
    View(
        _PARTITION + "/messages/browse",
        "Return messages in every state, for people: payloads are cut; a search reads at most 4 MiB of messages.",
        browse,
        _BROWSING,
    ),
    View(
        _PARTITION + "/messages/{offset}/payload",
        "Return the whole payload of a message, as a file.",
        download,
        content_type="application/octet-stream",
    ),
    View("/console/session", "Return the logged-in user with its permissions.", describe_session),
)


class Views:
    """Finds views and answers them; any thread.

    Args:
        traffic: Counters of each transport.
    """

    def __init__(self, traffic: Sequence[Traffic] = ()) -> None:
        self._traffic = tuple(traffic)
        self._patterns = [(re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", view.path)), view) for view in VIEWS]

    def show(self, traffic: Traffic) -> None:
        """Add another transport's counters."""
        self._traffic = (*self._traffic, traffic)

    def find(self, method: str, path: str) -> FoundView | None:
        """Return the view of a method and a path, or None.

        Args:
            method: The HTTP method.
            path: Percent-encoded, without the query.

        Raises:
            DecodeError: a parameter of the path is not UTF-8.
        """
        if method != "GET":
            return None
        for pattern, view in self._patterns:
            found = pattern.fullmatch(path)
            if found is not None:
                return FoundView(view, {name: decode_path_parameter(text, name) for name, text in found.groupdict().items()})
        return None

    def find_methods(self, path: str) -> list[str]:
        """Return the methods that a path accepts; empty for an unknown path."""
        try:
            return [] if self.find("GET", path) is None else ["GET"]
        except DecodeError:
            return ["GET"]

    def answering(self, found: FoundView, ask: Ask, user_id: int | str, query: Mapping[str, str]) -> Callable[[], Reply]:
        """Return a function that answers a view on a worker thread.

        Args:
            found: The view.
            ask: Runs a command in the name of the user.
            user_id: The user.
            query: The parameters of the query.

        Raises:
            DecodeError: a parameter of the query is unknown.
        """
        unknown = sorted(set(query) - set(found.view.query))
        if unknown:
            raise DecodeError(f"there is no parameter {unknown[0]!r}", 0, where="query")
        return partial(_answer, found.view, ViewRequest(ask, user_id, found.path, query, self._traffic))


def _answer(view: View, request: ViewRequest) -> Reply:
    found = view.answer(request)
    return found if isinstance(found, Reply) else json_reply(found)
