"""The login of protocol 0.11.

login   protocol u32 | sdk name text8 | sdk version text8 | username text8 | password text8 | context text32
        with a personal access token, token text8 | context text32 in place of the last three fields
reply   user_id u32 | session u64 | protocol u32 | server version text8
"""

from __future__ import annotations

from typing import Final

from headstream.core.codec.buffer import Reader
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.commands.tokens import LoginWithToken
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.core.wire.vsr.frames import PROTOCOL
from headstream.errors import DecodeError

SERVER_VERSION: Final = "0.9.0"
"""The version of Iggy's server that logins report to clients."""


def decode_login(reader: Reader) -> Login | LoginWithToken:
    """Decode a login; HeadstreamError with status 14003 if the server does not support the client's protocol."""
    protocol = reader.pull_u32("the protocol version")
    if protocol >> 10 != PROTOCOL >> 10:
        version = f"{protocol >> 20}.{protocol >> 10 & 1023}.{protocol & 1023}"
        advice = "Use SDK 0.11 (apache-iggy 0.9.0), or an SDK before 0.7 (iggy-py)"
        raise refusal(Status.INCOMPATIBLE_PROTOCOL, f"version {version} of Iggy's protocol is not supported", advice=advice)
    reader.pull_text8("the SDK name")
    reader.pull_text8("the SDK version")
    first = reader.pull_text8("a username or a token")
    at = reader.at
    try:
        login = Login(first, reader.pull_text8("a password"))
        reader.pull_text32("the login context")
        reader.pull_end("a login")
    except DecodeError:
        reader.at = at
        reader.pull_text32("the login context")
        reader.pull_end("a login")
        return LoginWithToken(first)
    return login
