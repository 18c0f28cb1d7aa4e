"""Views: HTTP routes that combine commands, for people and dashboards.

    GET /open/overview            the server's counts, memory use, and traffic by transport
    GET /open/topics/visible      the topics that the user is allowed to see
    GET /open/group-lags          the groups of these topics
    GET .../messages/browse       messages with typed headers and truncated payloads, with search
    GET .../messages/{offset}/payload    a complete payload, as a file
    GET .../messages/{offset}/explained  a message, decoded with pipeline or registry schemas
    GET .../letters/reasons       dead letters by origin, group and reason
    POST .../letters/redrive      sends dead letters back to their topics, a part per request
    POST .../letters/discard      marks dead letters for deletion
    GET /open/pipelines           the state of Replicate pipelines
    GET /console/session          the logged-in user, and the server's version

A view runs commands with the rights of the user, so that it shows only data that the user is allowed to see.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from headstream.core.codec.json_text import decode_json
from headstream.core.wire.codes import Code
from headstream.core.wire.route_matching import decode_path_parameter
from headstream.errors import DecodeError
from headstream.server.http.browsing import browse, download, explain_message
from headstream.server.http.dead_letters import DISCARDING, READING, REDRIVING, count_letters, discard_letters, redrive_letters
from headstream.server.http.overview import describe_session, list_group_lags, list_pipelines, list_visible_topics, survey
from headstream.server.http.own_client import Ask, own_client
from headstream.server.http.pipeline_reports import NO_PIPELINES, PipelineReports
from headstream.server.http.replies import Reply, json_reply
from headstream.server.http.routes import OpenClient, ViewRequest
from headstream.server.iggy.fast_path.traffic import Traffic

VIEW_BYTES: Final = 8 << 20
"""Memory reserved for a view, bytes: twice the size of the messages that the view reads."""


class View(NamedTuple):
    """A route.

    Args:
        path: Path template; parameters are in braces.
        about: Description of the route, one sentence.
        answer: Returns a JSON document or a reply; called on a worker thread.
        query: Query parameters with their JSON Schemas.
        method: GET, or POST if the view changes data.
        body: Members of the body with their JSON Schemas.
        code: Code of the command on whose threads the view runs.
    """

    path: str
    about: str
    answer: Callable[[ViewRequest], dict[str, Any] | Reply]
    query: Mapping[str, Mapping[str, Any]] = {}
    content_type: str = "application/json"
    method: Literal["GET", "POST"] = "GET"
    body: Mapping[str, Mapping[str, Any]] = {}
    code: Code = Code.STATS


class FoundView(NamedTuple):
    """A view and the decoded parameters of its path."""

    view: View
    path: dict[str, str]


_PARTITION: Final = "/streams/{stream_id}/topics/{topic_id}/partitions/{partition_id}"
_BROWSING: Final[dict[str, dict[str, Any]]] = {
    "kind": {"type": "string", "enum": ["offset", "timestamp", "first", "last"], "default": "first"},
    "value": {"type": "integer", "minimum": 0, "default": 0, "description": "Offset, or microseconds since 1970 UTC."},
    "count": {"type": "integer", "minimum": 1, "maximum": 500, "default": 50},
    "payload_bytes": {"type": "integer", "minimum": 0, "maximum": 65_536, "default": 1024},
    "contains": {"type": "string", "description": "Only messages that contain this string in the payload, key or headers."},
    "where": {"type": "string", "description": "Only messages that match this filter."},
}

VIEWS: Final = (
    View("/open/overview", "Return the counts of the server, its memory and its traffic.", survey),
    View("/open/topics/visible", "Return the topics that the user is allowed to see.", list_visible_topics),
    View("/open/group-lags", "Return the groups of the topics that the user is allowed to see, with lags.", list_group_lags),
    View(
        _PARTITION + "/messages/browse",
        "Return messages in every state, with truncated payloads. A search reads at most 4 MiB of messages.",
        browse,
        _BROWSING,
    ),
    View(
        _PARTITION + "/messages/{offset}/payload",
        "Return the complete payload of a message, as a file.",
        download,
        content_type="application/octet-stream",
    ),
    View(
        _PARTITION + "/messages/{offset}/explained",
        "Return a message, decoded with the schemas of registered pipelines (Replicate) or of a registry (Avro).",
        explain_message,
    ),
    View(
        _PARTITION + "/letters/reasons",
        "Count dead letters by origin, group and reason. A request reads at most 4 MiB of messages.",
        count_letters,
        READING,
    ),
    View(
        _PARTITION + "/letters/redrive",
        "Send dead letters back to their original topics. A request works for about a second.",
        redrive_letters,
        method="POST",
        body=REDRIVING,
        code=Code.SET_STATE,
    ),
    View(
        _PARTITION + "/letters/discard",
        "Mark dead letters for deletion. A request reads at most 4 MiB of messages.",
        discard_letters,
        method="POST",
        body=DISCARDING,
        code=Code.SET_STATE,
    ),
    View("/open/pipelines", "Return the state of the registered Replicate pipelines.", list_pipelines),
    View("/console/session", "Return the logged-in user, with permissions.", describe_session),
)


class Views:
    """Finds and answers views; thread-safe."""

    def __init__(self, traffic: Sequence[Traffic] = (), pipelines: PipelineReports = NO_PIPELINES) -> None:
        self._traffic = tuple(traffic)
        self._pipelines = pipelines
        self._patterns = [(re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", view.path)), view) for view in VIEWS]

    def show(self, traffic: Traffic) -> None:
        """Add the counters of another transport."""
        self._traffic = (*self._traffic, traffic)

    def find(self, method: str, path: str) -> FoundView | None:
        """Return the view for a method and a percent-encoded path, or None; DecodeError if a parameter is not UTF-8."""
        for pattern, view in self._patterns:
            found = pattern.fullmatch(path) if view.method == method else None
            if found is not None:
                return FoundView(view, {name: decode_path_parameter(text, name) for name, text in found.groupdict().items()})
        return None

    def find_methods(self, path: str) -> list[str]:
        """Return the methods that a path accepts; empty if the path is unknown."""
        return sorted({view.method for pattern, view in self._patterns if pattern.fullmatch(path)})

    def answering(
        self,
        found: FoundView,
        ask: Ask,
        user_id: int | str,
        query: Mapping[str, str],
        body: bytes = b"",
        open_client: OpenClient | None = None,
    ) -> Callable[[], Reply]:
        """Return a function that answers a view on a worker thread.

        Args:
            open_client: Returns a context with a client of the user; by default, a client whose commands are run by `ask`.

        Raises:
            DecodeError: a parameter of the query or a member of the body is unknown, or the body is not a JSON object.
        """
        view = found.view
        _check_known(query, view.query, "query")
        members = decode_json(body) if view.body else {}
        if not isinstance(members, dict):
            raise DecodeError("the body must be an object", 0, where="body")
        _check_known(members, view.body, "body")
        open_own = partial(own_client, ask) if open_client is None else open_client
        request = ViewRequest(ask, user_id, found.path, query, members, open_own, self._traffic, self._pipelines)
        return partial(_answer, view, request)


def _check_known(given: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise DecodeError(f"there is no parameter {unknown[0]!r}", 0, where=where)


def _answer(view: View, request: ViewRequest) -> Reply:
    found = view.answer(request)
    return found if isinstance(found, Reply) else json_reply(found)
