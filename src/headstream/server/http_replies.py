"""Replies over HTTP as values, and how errors are spelled there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from headstream.codec.json_text import encode_json
from headstream.errors import DecodeError, HeadstreamError
from headstream.log.log import Log
from headstream.server.disclosure import disclose
from headstream.server.logs import note
from headstream.server.troubles import TROUBLES
from headstream.wire.refusals import spell_refusal, status_of
from headstream.wire.statuses import Status, http_status

__all__ = ["NOT_FOUND", "UNAUTHORIZED", "Reply", "json_reply", "misspelled_reply", "refused_reply", "text_reply"]


class Reply(NamedTuple):
    """What is answered.

    Args:
        http_status: The status of HTTP.
        body: The body.
        content_type: What it is; None where there is none.
        headers: More headers.
        status: Ours, 0 where it went well.
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
    """Return a text as a reply, with a status of ours."""
    return Reply(http_status, text.encode("utf-8", "replace"), "text/plain; charset=utf-8", status=status)


UNAUTHORIZED: Final = Reply(401, headers={"WWW-Authenticate": "Bearer"}, status=Status.UNAUTHENTICATED)
"""To whoever shows no token, or one that is not taken: which of both is nobody's business."""

NOT_FOUND: Final = json_reply({"id": 404, "code": "not_found", "reason": "Resource not found", "field": None}, 404)._replace(
    status=Status.RESOURCE_NOT_FOUND
)
"""What a lookup is answered that finds nothing, or nothing that the user may see."""


def misspelled_reply(error: DecodeError, log: Log) -> Reply:
    """Return the reply to a request that spells no command, as a text.

    A member of its body is told by 422; its path, its query, and what is no JSON by 400.

    Args:
        error: What is wrong; one with a status of its own is told as every refusal.
        log: The server's.
    """
    if error.status is not None:
        return refused_reply(error, log)
    in_body = (error.where or "").startswith("body")
    return text_reply(422 if in_body else 400, str(error), Status.INVALID_COMMAND)


def refused_reply(error: Exception, log: Log) -> Reply:
    """Return the reply to a command that fails, as JSON.

    Args:
        error: Why; what is not an error of ours is a fault of the server: 500, and a line in the log.
        log: The server's; its files are not named.
    """
    if not isinstance(error, HeadstreamError):
        note(logging.ERROR, "a request failed by a fault in the server", error)
        return json_reply(spell_refusal(error), 500)._replace(status=Status.ERROR)
    status = status_of(error, is_extended=True)
    TROUBLES.look_at(error, status)
    return json_reply(spell_refusal(disclose(error, log)), http_status(status))._replace(status=status)
