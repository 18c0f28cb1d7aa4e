"""Commands for login and logout.

    login   username text8 | password text8 | [version text32 | context text32]

The oldest clients send neither version nor context. The context "headstream" enables Headstream's own commands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, TypeAlias

from headstream.core.codec.buffer import Reader, Writer
from headstream.core.wire.codes import EXTENSION_CONTEXT, Code
from headstream.core.wire.commands.users import check_password, check_username
from headstream.core.wire.records import Command, Record, one
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import TEXT32, U32, U64, Shape, Text8
from headstream.core.wire.statuses import Status

_VERSION: Final = re.compile(r"0\.(\d{1,6})\.")


class TrailingShape(Shape):
    """An optional string at the end of a command."""

    is_optional = True

    def push(self, writer: Writer, value: str | None) -> None:
        if value is not None:
            TEXT32.push(writer, value)

    def pull(self, reader: Reader, what: str) -> str | None:
        return TEXT32.pull(reader, what) if reader.remaining else None

    def from_json_value(self, json_value: Any, where: str) -> str | None:
        return None if json_value is None else TEXT32.from_json_value(json_value, where)


Trailing: TypeAlias = Annotated[str | None, TrailingShape()]
"""A string at the end of a command, which the oldest clients do not send."""


class OnlyJsonShape(Shape):
    """A record that exists only in JSON."""

    is_optional = True

    def push(self, writer: Writer, value: Record | None) -> None:
        return None

    def pull(self, reader: Reader, what: str) -> None:
        return None

    def to_json_value(self, value: Record | None) -> Any:
        return None if value is None else value.spell()

    def from_json_value(self, json_value: Any, where: str) -> Any:
        return None if json_value is None else AccessToken.read(json_value, where)


@dataclass(frozen=True, slots=True)
class AccessToken(Record):
    """The bearer token of a client over HTTP; `expiry` is in seconds since 1970 UTC."""

    token: Text8 = field(repr=False)
    expiry: U64


@dataclass(frozen=True, slots=True)
class LoggedIn(Record):
    """The logged-in user; a token is returned over HTTP, but not over TCP."""

    user_id: U32
    access_token: Annotated[AccessToken | None, OnlyJsonShape()] = None


@dataclass(frozen=True, slots=True)
class Ping(Command[None]):
    """Keep the connection alive."""

    code = Code.PING


@dataclass(frozen=True, slots=True)
class Login(Command[LoggedIn]):
    """Log in with a name and password."""

    code = Code.LOGIN
    reply = one(LoggedIn)
    username: Text8
    password: Text8 = field(repr=False)
    version: Trailing = None
    context: Trailing = None

    @property
    def is_extended(self) -> bool:
        """Whether the client supports Headstream's own commands and statuses."""
        return self.context == EXTENSION_CONTEXT

    @property
    def is_of_later_generation(self) -> bool:
        """Whether the client uses Iggy's SDK 0.7 or later, whose messages have another format.

        Only versions 0.x are considered, because SDKs in other languages have other version numbers.
        """
        return self._sdk_minor >= 7

    @property
    def is_of_today(self) -> bool:
        """Whether the client uses Iggy's SDK 0.11 or later; such a client sends its version only in JSON."""
        return self._sdk_minor >= 11

    @property
    def _sdk_minor(self) -> int:
        found = _VERSION.match(self.version or "")
        return 0 if found is None or self.is_extended else int(found[1])

    def validate(self) -> None:
        """Check the name, the password and the client's version.

        A client of a newer version with another message format is rejected here, because its polls would find no messages.
        """
        check_username(self.username)
        check_password(self.password)
        if self.is_of_later_generation:
            raise refusal(
                Status.INVALID_VERSION,
                f"SDK {self.version} of Iggy is not supported: use SDK 0.11 (apache-iggy 0.9.0), or an SDK before 0.7 (iggy-py)",
            )


@dataclass(frozen=True, slots=True)
class Logout(Command[None]):
    """Log out; the connection stays open."""

    code = Code.LOGOUT
