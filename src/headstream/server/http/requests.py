"""Reads token, query and body of an HTTP request within limits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qsl

from aiohttp import hdrs
from aiohttp.web import BaseRequest, RequestPayloadError

from headstream.broker.commands.messages import JSON_BYTES
from headstream.core.wire.commands.messages import PollMessages
from headstream.core.wire.extensions.filters import FilterMessages
from headstream.core.wire.extensions.messages import FetchMessages
from headstream.core.wire.records import BINARY, Command
from headstream.core.wire.statuses import Status
from headstream.errors import DecodeError
from headstream.server.http.replies import Reply, text_reply
from headstream.server.network.addresses import Address

_MOST_PARAMETERS: Final = 100

_MOST_IN_JSON: Final = 10_000
"""Maximum number of messages in one JSON reply: encoding more would block other threads for too long."""


class RefusedBodyError(Exception):
    """A rejected body; contains the reply to send."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.body)
        self.reply = reply


def peer_of(request: BaseRequest) -> str:
    """Return the `host:port` of the client."""
    name = request.protocol.peername
    if not isinstance(name, (tuple, list)):
        return "unknown"
    return str(Address(*name[:2]))


def address_of(request: BaseRequest) -> str:
    """Return the server's `host:port` to which the client has connected; empty if the connection is closed."""
    name = request.transport.get_extra_info("sockname") if request.transport is not None else None
    return str(Address(*name[:2])) if isinstance(name, (tuple, list)) else ""


def read_token(headers: Mapping[str, str]) -> str | None:
    """Return the bearer token of a request, or None."""
    scheme, _, token = headers.get(hdrs.AUTHORIZATION, "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def read_query(text: str) -> dict[str, str]:
    """Return the parameters of an encoded query; DecodeError for invalid UTF-8, a repeated parameter, or more than 100."""
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_PARAMETERS)
    except UnicodeDecodeError:
        raise DecodeError("the query must be UTF-8", 0, where="query") from None
    except ValueError:
        raise DecodeError(f"the query has more than {_MOST_PARAMETERS} parameters", 0, where="query") from None
    query = dict(pairs)
    if len(query) != len(pairs):
        raise DecodeError("a parameter is repeated", 0, where="query")
    return query


def is_binary(request: BaseRequest) -> bool:
    """Return whether the body of a request has the binary encoding of TCP instead of JSON."""
    return request.content_type == BINARY


def wants_binary(request: BaseRequest) -> bool:
    """Return whether the client accepts a reply in the binary encoding of TCP."""
    return BINARY in request.headers.get(hdrs.ACCEPT, "")


async def read_body(
    request: BaseRequest, most_bytes: int, most_s: float, hold: Callable[[int], Awaitable[None]], most_binary_bytes: int = 0
) -> bytes:
    """Return a request's body, in JSON or, if accepted, in the binary encoding.

    Args:
        most_bytes: Maximum size of a JSON body, bytes.
        hold: Waits until a number of bytes of memory is reserved, or raises an error.
        most_binary_bytes: Maximum size of a binary body, bytes; 0 rejects binary bodies.

    Raises:
        RefusedBodyError: the body is too long (413), incomplete after `most_s` (408), not JSON (415), empty or invalid (400).
    """
    kind = request.content_type
    if is_binary(request) and most_binary_bytes:
        most_bytes = most_binary_bytes
    elif hdrs.CONTENT_TYPE not in request.headers or not (kind == "application/json" or kind.endswith("+json")):
        raise RefusedBodyError(
            text_reply(415, "the request must have a body with content-type: application/json", Status.INVALID_COMMAND)
        )
    too_long = RefusedBodyError(text_reply(413, f"the body must have at most {most_bytes} bytes", Status.TOO_BIG_MESSAGE_PAYLOAD))
    if (request.content_length or 0) > most_bytes:
        raise too_long
    if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":
        await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        request.writer.output_size = 0  # the body's bytes are not a part of the response
    body, held_bytes = bytearray(), 0
    try:
        async with asyncio.timeout(most_s):
            async for piece in request.content.iter_any():
                body += piece
                if len(body) > most_bytes:
                    raise too_long
                if len(body) > held_bytes:
                    held_bytes = min(2 * len(body), most_bytes)
                    await hold(held_bytes)
    except TimeoutError:
        raise RefusedBodyError(text_reply(408, f"the body did not arrive within {most_s:g} s", Status.INVALID_COMMAND)) from None
    except RequestPayloadError:
        raise RefusedBodyError(text_reply(400, "the body does not match the headers", Status.INVALID_COMMAND)) from None
    if not body:
        raise RefusedBodyError(text_reply(400, "a request body is required", Status.INVALID_COMMAND))
    return bytes(body)


def bounded_for_json(command: Command[Any]) -> Command[Any]:
    """Return a command whose count is limited to the messages of one JSON reply."""
    if isinstance(command, PollMessages):
        return replace(command, count=min(command.count, _MOST_IN_JSON))
    if isinstance(command, (FetchMessages, FilterMessages)):
        size_bytes = min(command.size_bytes or JSON_BYTES, JSON_BYTES)
        return replace(command, count=min(command.count, _MOST_IN_JSON), size_bytes=size_bytes)
    return command
