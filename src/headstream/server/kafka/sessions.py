"""Logins: SASL PLAIN with the server's users."""

from __future__ import annotations

import re
from typing import Final

from headstream.core.wire.commands.sessions import Login
from headstream.errors import AuthenticationError, HeadstreamError
from headstream.server.kafka.calls import Call, Reply
from headstream.server.kafka.protocol.error_codes import ErrorCode

__all__ = ["MECHANISMS", "authenticate", "is_software", "shake_hands"]

MECHANISMS: Final = ("PLAIN",)

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def is_software(name: str) -> bool:
    """Return whether the name or version of a client's software is valid."""
    return _SOFTWARE.fullmatch(name) is not None


def shake_hands(call: Call) -> Reply:
    """Select a SASL mechanism."""
    is_known = call.request["mechanism"] in MECHANISMS
    fault = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return {"error_code": fault, "mechanisms": list(MECHANISMS)}


def authenticate(call: Call) -> Reply:
    """Log in with SASL PLAIN: authorization id (empty, or the user's name), name and password, NUL-separated."""
    if call.mechanism is None:
        return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": "agree on a mechanism first"}
    refused = {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "error_message": "wrong user or password"}
    try:
        acting_as, username, password = call.request["auth_bytes"].decode("utf-8").split("\0")
    except (UnicodeDecodeError, ValueError):
        return refused | {"error_message": "these are no credentials of PLAIN"}
    if acting_as not in ("", username):
        return refused | {"error_message": "users act as themselves"}
    try:
        command = Login(username, password)
        command.validate()
        call.context.dispatcher.answer(call.session, command)
    except AuthenticationError as error:
        return refused | {"error_message": error.what}
    except HeadstreamError:
        return refused
    return {"error_code": ErrorCode.NONE, "auth_bytes": b""}
