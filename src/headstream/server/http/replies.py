"""HTTP replies as values, and the encoding of errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headstream.core.codec.json_text import encode_json
from headstream.core.wire.codes import Code
from headstream.core.wire.records import BINARY, Command
from headstream.core.wire.refusals import refusal_to_json, status_of
from headstream.core.wire.statuses import Status, http_status
from headstream.core.wire.vsr import http as vsr_http
from headstream.errors import DecodeError, HeadstreamError
from headstream.log.log import Log
from headstream.server.reporting.logs import note
from headstream.server.reporting.redaction import redact
from headstream.server.reporting.storage_errors import STORAGE_ERRORS


class Reply(NamedTuple):
    """A reply to an HTTP request.

    Args:
        content_type: Content type of the body; None if there is no body.
        status: Headstream's status code; 0 for success.
    """

    http_status: int
    body: bytes = b""
    content_type: str | None = None
    headers: Mapping[str, str] = {}
    status: int = 0


def json_reply(document: Any, http_status: int = 200) -> Reply:
    """Return a JSON document as a reply."""
    return Reply(http_status, encode_json(document), "application/json")


def text_reply(http_status: int, text: str, status: int = 0) -> Reply:
    """Return a string as a text reply, with a status code of Headstream."""
    return Reply(http_status, text.encode("utf-8", "replace"), "text/plain; charset=utf-8", status=status)


OWN_HEADERS: Final = {"Server": "headstream", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin"}
"""Headers of every reply, so that pages of other origins cannot load a reply as a script, a style or an image."""

UNAUTHORIZED: Final = Reply(401, headers={"WWW-Authenticate": "Bearer"}, status=Status.UNAUTHENTICATED)
"""Reply to a missing or invalid token; the reply does not reveal the cause."""

NOT_FOUND: Final = json_reply({"id": 404, "code": "not_found", "reason": "Resource not found", "field": None}, 404)._replace(
    status=Status.RESOURCE_NOT_FOUND
)
"""Reply to a lookup that finds nothing, or nothing that the user is allowed to see."""


def misspelled_reply(error: DecodeError, log: Log | None = None) -> Reply:
    """Return the text reply to a request that cannot be decoded.

    The HTTP status is 422 for an invalid member of the body, 400 for an invalid path, query or JSON document. An error with
    its own status is handled by refused_reply().
    """
    if error.status is not None:
        return refused_reply(error, log)
    in_body = (error.where or "").startswith("body")
    return text_reply(422 if in_body else 400, str(error), Status.INVALID_COMMAND)


def refused_reply(error: Exception, log: Log | None = None) -> Reply:
    """Return the JSON reply to a failed command.

    Args:
        error: The error; errors other than HeadstreamError are logged and answered with 500.
        log: The server's log, whose paths are redacted; None redacts nothing.
    """
    if not isinstance(error, HeadstreamError):
        note(logging.ERROR, "internal error", error)
        return json_reply(refusal_to_json(error), 500)._replace(status=Status.ERROR)
    status = status_of(error, is_extended=True)
    STORAGE_ERRORS.log_once(error, status)
    return json_reply(refusal_to_json(error if log is None else redact(error, log)), http_status(status))._replace(status=status)


def command_reply(command: Command[Any], value: Any, *, in_binary: bool = False, is_today: bool = False) -> Reply:
    """Return the reply to a command that has a route.

    Args:
        in_binary: Whether the client accepts the binary encoding of TCP.
        is_today: Whether the client expects the JSON format of Iggy servers from version 0.9.
    """
    kind, route = type(command), command.entry().route
    assert route is not None  # the request was found by its route
    if kind.code == Code.PING:
        return text_reply(route.success, "pong")
    if kind.code == Code.SNAPSHOT:
        name = time.strftime("iggy_snapshot_%Y%m%d_%H%M%S.zip", time.gmtime())
        return Reply(route.success, value, "application/zip", {"Content-Disposition": f'attachment; filename="{name}"'})
    if in_binary:
        return Reply(route.success, kind.encode_reply(value), BINARY)
    body = vsr_http.encode_reply(command, value) if is_today else kind.encode_http_reply(value)
    return Reply(route.success, body, "application/json" if body else None)
