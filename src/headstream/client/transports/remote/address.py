"""A server's address, credentials and options, taken from the URL, the environment and connect()'s options."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from typing import Any, Final
from urllib.parse import SplitResult, parse_qsl, unquote

from headstream.errors import InvalidOptionError, InvalidUrlError

USERNAME_VARIABLE: Final = "HEADSTREAM_USERNAME"
PASSWORD_VARIABLE: Final = "HEADSTREAM_PASSWORD"
TOKEN_VARIABLE: Final = "HEADSTREAM_TOKEN"
SCHEMES: Final = {"headstream": 8090, "http": 80, "https": 443, "quic": 8080}
"""Scheme -> default port."""

_LONGEST_MS: Final = 3_600_000
_ESCAPES: Final = "In a password, write ? as %3F, # as %23 and @ as %40"


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """Options of the connection to a server.

    Args:
        tls: Whether headstream:// is encrypted; https:// and quic:// are always encrypted.
        tls_verify: Whether the server's certificate is checked; if not, other machines can read and change all data.
        tls_ca_file: A PEM file with trusted certificates; None uses the system's certificates.
        tls_domain: The name in the server's certificate, if different from the host.
        connect_timeout_ms: Timeout for opening a connection.
        timeout_ms: Timeout for a response.
        retry_timeout_ms: Time for which broken connections are reopened and idempotent commands are retried; 0 disables retries.
    """

    tls: bool = False
    tls_verify: bool = True
    tls_ca_file: str | None = None
    tls_domain: str | None = None
    connect_timeout_ms: int = 5000
    timeout_ms: int = 30_000
    retry_timeout_ms: int = 30_000

    def __post_init__(self) -> None:
        for name in ("tls", "tls_verify"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidOptionError(f"{name} must be True or False, not {getattr(self, name)!r}")
        for name, least in (("connect_timeout_ms", 1), ("timeout_ms", 1), ("retry_timeout_ms", 0)):
            value = getattr(self, name)
            if isinstance(value, timedelta):
                value = value / timedelta(milliseconds=1)
                object.__setattr__(self, name, value)
            if not isinstance(value, (int, float)) or not least <= value <= _LONGEST_MS:
                raise InvalidOptionError(f"{name} must be {least} to {_LONGEST_MS} ms, or a timedelta, not {value!r}")


@dataclass(frozen=True, slots=True)
class ServerUrl:
    """A server's address, the client's credentials and options.

    Args:
        scheme: `headstream`, `http`, `https` or `quic`.
        port: 1 to 65535.
        username: The user, or None if a token is used.
    """

    scheme: str
    host: str
    port: int
    username: str | None = None
    password: str = field(default="", repr=False)
    token: str | None = field(default=None, repr=False)
    options: RemoteOptions = RemoteOptions()

    @property
    def place(self) -> str:
        """The server's address without credentials, for errors."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def who(self) -> str:
        """The client's name, for errors."""
        return "a token" if self.username is None else f"user {self.username!r}"


def parse_address(parts: SplitResult, given: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> ServerUrl:
    """Parse a URL; missing parts are taken from environment variables.

    Credentials are taken from `user:password@` in the URL, or `:token@` for a personal access token; else from
    HEADSTREAM_USERNAME and HEADSTREAM_PASSWORD; else from HEADSTREAM_TOKEN. Options in `given` override the URL's options.

    Raises:
        InvalidUrlError: the URL has no host or there are no credentials; the error contains no credentials.
        InvalidOptionError: an option is unknown or out of range.
    """
    parts = restore_slashes(parts)
    try:
        host, port = parts.hostname, parts.port or SCHEMES[parts.scheme]
    except ValueError:  # the string can be a part of a password, so the error does not contain it
        raise InvalidUrlError("the port is invalid", advice=f"Use 1 to 65535. {_ESCAPES}") from None
    if not host:
        raise InvalidUrlError("the host is missing", advice=f"Write {parts.scheme}://user:password@host:{port}")
    if parts.path.strip("/") or parts.fragment:
        raise InvalidUrlError("a server's URL must not have a path", advice=f"Pass topics to the methods. {_ESCAPES}")
    options = _read_options(parts, given)
    address = ServerUrl(parts.scheme, unquote(host), port, options=options)
    username, password = unquote(parts.username or ""), unquote(parts.password or "")
    if password and not username:
        return replace(address, token=password)
    username = username or environment.get(USERNAME_VARIABLE, "")
    password = password or environment.get(PASSWORD_VARIABLE, "")
    if username and password:
        return replace(address, username=username, password=password)
    token = environment.get(TOKEN_VARIABLE)
    if token and not username:
        return replace(address, token=token)
    example = address.place.replace("://", "://user:password@")
    raise InvalidUrlError(
        "the password is missing" if username else "the user name is missing",
        where=address.place,
        advice=f"Write {example}, or set {USERNAME_VARIABLE} and {PASSWORD_VARIABLE}",
    )


def restore_slashes(parts: SplitResult) -> SplitResult:
    """Parse a URL whose password contains a slash; the result is unambiguous, because server URLs have no path."""
    if "@" not in parts.path:  # the last @ ends the password
        return parts
    return parts._replace(netloc=(parts.netloc + parts.path).replace("/", "%2F"), path="")


def _read_options(parts: SplitResult, given: Mapping[str, Any]) -> RemoteOptions:
    parsed: dict[str, Any] = {}
    kinds = {option.name: option.type for option in fields(RemoteOptions)}
    for name, text in parse_qsl(parts.query, keep_blank_values=True):
        if name not in kinds:
            what = "a server's URL does not have this option" if "@" in name + text else f"a server's URL has no option {name!r}"
            raise InvalidOptionError(what, advice=f"Use one of {', '.join(kinds)}")
        parsed[name] = _read_option(name, text, str(kinds[name]))
    options = RemoteOptions(**(parsed | dict(given)))
    if parts.scheme in ("https", "quic"):
        options = replace(options, tls=True)
    elif parts.scheme == "http" and options.tls:
        raise InvalidOptionError("http:// is not encrypted", advice="Use https://")
    if not options.tls and (options.tls_ca_file or options.tls_domain or not options.tls_verify):
        raise InvalidOptionError("TLS options require TLS", advice="Add tls=true")
    return options


def _read_option(name: str, text: str, kind: str) -> Any:
    if kind == "bool":
        if text not in ("true", "false"):
            raise InvalidOptionError(f"{name} must be true or false, not {text!r}")
        return text == "true"
    if kind == "int":
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise InvalidOptionError(f"{name} must be a number of milliseconds, not {text!r}")
        return int(text)
    return text
