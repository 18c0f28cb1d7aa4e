"""Replicate pipelines over HTTP: their reports; and messages decoded by their schemas or by those of a registry.

Checkpoints and registries are read by functions that the command which starts the server gives.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from headstream.core.codec.schema_ids import find_schema_id
from headstream.core.wire.commands.system import ListClients
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.errors import LimitError
from headstream.server.http.browsing import find_message
from headstream.server.http.replies import NOT_FOUND, Reply, json_reply

if TYPE_CHECKING:
    from headstream.server.http.routes import ViewRequest

_SCHEMA_MARKS: Final = (b"\0", b"\xc3\x01")
"""Payloads that name their Avro schema begin with one: a registry's framing, and Avro's single-object encoding."""

_EXPLAINED_BYTES: Final = 1 << 20
"""The largest message that is decoded."""

_REPLY_BYTES: Final = 4 << 20
"""The largest reply: a few bytes of Avro can become many of JSON."""


def list_pipelines(request: ViewRequest) -> dict[str, Any]:
    """Return the reports of the registered pipelines; PermissionDeniedError without the right to read the server."""
    _check_right(request)
    return {"time_us": time.time_ns() // 1000, "pipelines": request.pipelines.read()}


def explain_message(request: ViewRequest) -> Reply:
    """Return a message decoded; 404 if there is no such message, or its payload is null.

    One of Replicate needs the right to read the server, as its pipeline does; another one names its Avro schema, and needs
    no right but that to the message.
    """
    message = find_message(request)
    if message is None or message.payload is None:
        return NOT_FOUND
    payload = message.payload
    schema_id = find_schema_id(payload, message.headers)
    names_schema = request.pipelines.explain_avro is not None and (schema_id is not None or payload.startswith(_SCHEMA_MARKS))
    if not names_schema:
        _check_right(request)
    explain = request.pipelines.explain_avro if names_schema else request.pipelines.explain
    if explain is None:
        raise refusal(
            Status.FEATURE_UNAVAILABLE, "no Replicate pipeline is registered", advice="Start with --pipeline CHECKPOINT"
        )
    by = "a library of Avro" if names_schema else "`headstream replicate inspect FILE --zone CHECKPOINT/zone`"
    advice = f"Save it, and decode it by {by}"
    if len(payload) > _EXPLAINED_BYTES:
        raise LimitError(f"a message of {len(payload)} bytes is not decoded: {_EXPLAINED_BYTES} is the limit", advice=advice)
    in_header = names_schema and schema_id is not None and schema_id.begin == 0
    frame = schema_id.to_bytes() if in_header and schema_id is not None else b""
    reply = json_reply({**explain(frame + payload), "size_bytes": len(payload)})
    if len(reply.body) > _REPLY_BYTES:
        raise LimitError(f"decoded, the message has {len(reply.body)} bytes: {_REPLY_BYTES} is the limit", advice=advice)
    return reply


def _check_right(request: ViewRequest) -> None:
    if request.pipelines.needs_right:
        request.ask(ListClients())  # refused without the right to read the server; GetStats is allowed to everybody
