"""HTTP settings: limits, access tokens, and CORS."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from headstream.core.wire.frames import MAX_FRAME_BYTES
from headstream.errors import InvalidInputError

ISSUER: Final = "iggy.apache.org"
"""Default issuer and audience of access tokens."""

Algorithm: TypeAlias = Literal["HS256", "HS384", "HS512"]

_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[^\sA-Z/?#@*]+")
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")

_KEY_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""Minimum key lengths by RFC 7518: the lengths of the hashes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Settings for issuing and verifying access tokens (JWT).

    Args:
        secret: The signing key, with which anyone can log in as any user; at least 32 bytes, 48 for HS384, 64 for HS512.
        algorithm: Signature algorithm.
        issuer: Claim `iss` of new tokens.
        audience: Claim `aud` of new tokens.
        valid_issuers: Accepted issuers; if empty, only `issuer` is accepted.
        valid_audiences: Accepted audiences; if empty, only `audience` is accepted.
        expiry_s: Lifetime of a token, seconds.
        not_before_s: Delay until a new token is valid, seconds.
        clock_skew_s: Tolerated difference between clocks, seconds.
    """

    secret: bytes = field(repr=False)
    algorithm: Algorithm = "HS256"
    issuer: str = ISSUER
    audience: str = ISSUER
    valid_issuers: tuple[str, ...] = ()
    valid_audiences: tuple[str, ...] = ()
    expiry_s: int = 3600
    not_before_s: int = 0
    clock_skew_s: int = 5

    def __post_init__(self) -> None:
        if self.algorithm not in _KEY_BYTES:
            raise InvalidInputError(
                f"unsupported algorithm {self.algorithm}: use one of {', '.join(_KEY_BYTES)}", where="http.jwt.algorithm"
            )
        least = _KEY_BYTES[self.algorithm]
        if len(self.secret) < least:
            raise InvalidInputError(
                f"a secret for {self.algorithm} must have at least {least} bytes, not {len(self.secret)}",
                where="http.jwt",
                advice=f"Use {least} random bytes",
            )
        if self.expiry_s < 1 or self.not_before_s < 0 or self.clock_skew_s < 0:
            raise InvalidInputError(
                "access_token_expiry must be at least 1 s; not_before and clock_skew must not be negative", where="http.jwt"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class CorsSettings:
    """Permissions for browser pages of other origins (CORS).

    Args:
        allowed_origins: Allowed origins without a path, for example `https://example.org`; `*`: any origin.
        allowed_headers: Allowed request headers; `*`: any header.
        exposed_headers: Response headers that pages of other origins can read.
        allow_credentials: Whether requests can contain cookies and other credentials.
        allow_private_network: Whether public pages can reach a private network.
    """

    allowed_origins: tuple[str, ...] = ()
    allowed_methods: tuple[str, ...] = ("GET", "POST", "PUT", "DELETE")
    allowed_headers: tuple[str, ...] = ("content-type",)
    exposed_headers: tuple[str, ...] = ()
    allow_credentials: bool = False
    allow_private_network: bool = False

    def __post_init__(self) -> None:
        for origin in self.allowed_origins:
            if origin not in ("", "*") and not _ORIGIN.fullmatch(origin):
                raise InvalidInputError(
                    f"{origin!r} is not a valid origin",
                    where="http.cors.allowed_origins",
                    advice="Write scheme, host and port in lower case, for example https://page.example or http://localhost:5173",
                )
        if self.allow_credentials and "*" in (*self.allowed_origins, *self.allowed_methods, *self.allowed_headers):
            raise InvalidInputError(
                "credentials cannot be allowed together with a wildcard (*) origin, method or header",
                where="http.cors",
                advice="List the values",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """HTTP settings.

    Args:
        max_body_bytes: Maximum size of a request's body, bytes.
        max_binary_bytes: Maximum size of a binary body with messages, bytes.
        max_connections: Maximum number of connections; additional connections are closed immediately.
        idle_s: Timeout of a connection without data, between requests or within a request's head, seconds.
        body_s: Timeout for receiving a request's body, seconds.
        reply_s: Timeout for sending a reply, seconds.
        drain_s: Maximum time that stop() waits for running requests, seconds.
        metrics_path: Path of the metrics; None disables the metrics.
        metrics_of_groups: Whether to export the lag of consumer groups, which shows topic names to unauthenticated clients.
        cors: Permissions for pages of other origins; None allows nothing.
        console: Whether to serve the console.
        allowed_hosts: Additional host names of the server, such as a proxy's name (see hosts.py); `*`: any name.
    """

    max_body_bytes: int = 2_000_000
    max_binary_bytes: int = MAX_FRAME_BYTES
    max_connections: int = 10_000
    idle_s: float = 75.0
    body_s: float = 60.0
    reply_s: float = 60.0
    drain_s: float = 10.0
    metrics_path: str | None = "/metrics"
    metrics_of_groups: bool = False
    cors: CorsSettings | None = CorsSettings()
    console: bool = True
    allowed_hosts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in self.allowed_hosts:
            if name != "*" and not _HOST_NAME.fullmatch(name):
                raise InvalidInputError(
                    f"{name!r} is not a host name",
                    where="headstream.allowed_hosts",
                    advice="Write the name without scheme, port and path, for example shop.example",
                )
