"""Logins of the server's users: with SASL PLAIN, with SCRAM, or, without a login, as the user that a setting names."""

from __future__ import annotations

import re
import secrets
from typing import Any, Final

from headstream.broker.accounts.scram import SCRAM_HASHES, ScramLogin, Verifier
from headstream.broker.accounts.sessions import Session
from headstream.broker.accounts.users import ROOT
from headstream.broker.commands.sessions import become
from headstream.core.wire.commands.sessions import Login
from headstream.errors import AuthenticationError, HeadstreamError
from headstream.server.kafka.calls import Call, ListenerContext, Reply
from headstream.server.kafka.protocol.error_codes import ErrorCode
from headstream.server.network.addresses import Address

MECHANISMS: Final = ("PLAIN", *SCRAM_HASHES)

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_NONCE_BYTES: Final = 24
_WRONG_PROOF: Final = "wrong user or password, or the user has not logged in with a password since this server supports SCRAM"
"""Error message of all failed logins, which does not disclose user names."""


def is_software(name: str) -> bool:
    """Return whether the name or version of a client's software is valid."""
    return _SOFTWARE.fullmatch(name) is not None


def enter_without_login(context: ListenerContext, session: Session, here: Address) -> bool:
    """Let a new connection to `here` act as the user in `kafka.anonymous_user`; return False if the user does not exist."""
    name = context.settings.anonymous_user
    user = None if name is None else context.dispatcher.users.find(name)
    if user is None or not user.record.is_active or (user.id == ROOT and not here.is_loopback):
        return False
    become(session, user, is_extended=False)
    return True


def explain_login(*, is_encrypted: bool) -> str:
    """Return the settings that a client needs for a login, with or without TLS."""
    protocol = "SASL_SSL" if is_encrypted else "SASL_PLAINTEXT"
    return (
        f"Set security.protocol={protocol}, sasl.mechanism=SCRAM-SHA-256 or PLAIN, and a user and its password "
        "(sasl.jaas.config in Java, sasl.username and sasl.password elsewhere); or start the server with --kafka-user NAME"
    )


def handle_handshake(call: Call) -> Reply:
    """Select a SASL mechanism."""
    is_known = call.request["mechanism"] in MECHANISMS
    fault = ErrorCode.NONE if is_known else ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return {"error_code": fault, "mechanisms": list(MECHANISMS)}


def authenticate(call: Call) -> Reply:
    """Handle the next message of a login."""
    if call.sasl.mechanism is None:
        return {"error_code": ErrorCode.ILLEGAL_SASL_STATE, "error_message": "send SaslHandshake first"}
    try:
        return {"error_code": ErrorCode.NONE, "auth_bytes": _log_in(call) if call.sasl.mechanism == "PLAIN" else _prove(call)}
    except AuthenticationError as error:
        return _refused(error.what)
    except HeadstreamError:
        return _refused("wrong user or password")


def _refused(message: str) -> dict[str, Any]:
    return {"error_code": ErrorCode.SASL_AUTHENTICATION_FAILED, "error_message": message}


def _log_in(call: Call) -> bytes:
    """Log in with PLAIN: authorization id (empty, or the user's name), name and password, NUL-separated."""
    try:
        acting_as, username, password = call.request["auth_bytes"].decode("utf-8").split("\0")
    except (UnicodeDecodeError, ValueError):
        raise AuthenticationError("the credentials must have the format of SASL PLAIN") from None
    if acting_as not in ("", username):
        raise AuthenticationError("a user cannot act as another user")
    command = Login(username, password)
    command.validate()
    call.context.dispatcher.answer(call.session, command)
    return b""


def _prove(call: Call) -> bytes:
    """Handle one of the two messages of SCRAM; see broker.accounts.scram."""
    server, sasl, message = call.context.dispatcher, call.sasl, bytes(call.request["auth_bytes"])
    scram = sasl.scram
    if scram is None:

        def find(name: str) -> Verifier:
            sasl.user = server.users.find(name)  # if the password is changed during the login, the session is outdated
            return server.users.verifier(name, str(sasl.mechanism))

        scram = ScramLogin(str(sasl.mechanism), find, secrets.token_urlsafe(_NONCE_BYTES))
        reply = scram.begin(message)
        sasl.scram = scram
        return reply
    sasl.scram = None
    address = call.session.address.rpartition(":")[0]
    server.login_limits.check(address, scram.username)
    signature = scram.end(message)
    if signature is None or sasl.user is None:
        server.login_limits.failed(address, scram.username)
        raise AuthenticationError(_WRONG_PROOF)
    server.users.check_active(sasl.user)
    server.login_limits.succeeded(address, scram.username)
    become(call.session, sasl.user, is_extended=False)
    return signature
