"""Commands for personal access tokens, with which programs log in instead of a password.

token   name text8 | expires_at u64 (microseconds since 1970 UTC; 0 if the token does not expire)
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Final

from headstream.core.codec.buffer import BytesLike, Reader
from headstream.core.wire.codes import EXTENSION_CONTEXT, Code
from headstream.core.wire.commands.checks import check_bytes
from headstream.core.wire.commands.sessions import LoggedIn, Trailing
from headstream.core.wire.records import Command, Record, many, one
from headstream.core.wire.shapes import U64, AbsentU64, Json, Text8
from headstream.core.wire.statuses import Status

_NEVER: Final = (1 << 64) - 1
_MICROSECONDS_BYTES: Final = 8
_SECONDS_BYTES: Final = 4
"""Size of the expiry that the Node and C# clients of existing servers send, bytes."""


def _check_name(name: str) -> None:
    check_bytes(name, 3, 30, Status.INVALID_PERSONAL_ACCESS_TOKEN_NAME, "a personal access token name")


@dataclass(frozen=True, slots=True)
class Token(Record):
    """A token's name and expiry time; 0 if the token does not expire."""

    name: Text8
    expires_us: Annotated[AbsentU64, Json("expiry_at")]


@dataclass(frozen=True, slots=True)
class RawToken(Record):
    """The secret of a new token; the server does not return it later."""

    token: Text8 = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListTokens(Command[tuple[Token, ...]]):
    """Return the caller's own tokens."""

    code = Code.LIST_TOKENS
    reply = many(Token)


@dataclass(frozen=True, slots=True)
class CreateToken(Command[RawToken]):
    """Create a token. `expiry` is in microseconds from now, or SERVER_DEFAULT or NEVER.

    The Node and C# clients of existing servers send seconds in 4 bytes; 0 means that the token does not expire.
    """

    code = Code.CREATE_TOKEN
    reply = one(RawToken)
    name: Text8
    expiry: U64

    @classmethod
    def decode(cls, payload: BytesLike) -> CreateToken:
        """Decode a request, whose expiry has 8 or 4 bytes."""
        reader = Reader(payload)
        name = reader.pull_text8("name")
        if reader.end - reader.at != _SECONDS_BYTES:
            return cls.pull(Reader(payload))
        return cls(name, reader.pull_u32("expiry") * 1_000_000 or _NEVER)

    @classmethod
    def count_surplus(cls, payload: BytesLike) -> int:
        """Return the number of bytes after the expiry."""
        reader = Reader(payload)
        reader.pull_text8("name")
        return 0 if reader.end - reader.at == _SECONDS_BYTES else reader.end - reader.at - _MICROSECONDS_BYTES

    def validate(self) -> None:
        _check_name(self.name)


@dataclass(frozen=True, slots=True)
class DeleteToken(Command[None]):
    """Delete a token."""

    code = Code.DELETE_TOKEN
    name: Text8

    def validate(self) -> None:
        _check_name(self.name)


@dataclass(frozen=True, slots=True)
class LoginWithToken(Command[LoggedIn]):
    """Log in with a token. Existing clients send neither version nor context."""

    code = Code.LOGIN_WITH_TOKEN
    reply = one(LoggedIn)
    token: Text8 = field(repr=False)
    version: Trailing = None
    context: Trailing = None

    @property
    def is_extended(self) -> bool:
        """Whether the client supports Headstream's own commands and statuses."""
        return self.context == EXTENSION_CONTEXT

    def validate(self) -> None:
        check_bytes(self.token, 1, 100, Status.INVALID_PERSONAL_ACCESS_TOKEN, "a personal access token")
