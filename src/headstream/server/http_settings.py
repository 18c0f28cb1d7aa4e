"""What is decided for HTTP: limits, access tokens, and what pages of other origins may do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from headstream.errors import InvalidInputError
from headstream.wire.frames import MAX_FRAME_BYTES

__all__ = ["ISSUER", "Algorithm", "CorsSettings", "HttpSettings", "TokenSettings"]

ISSUER: Final = "iggy.apache.org"
"""Who makes the tokens, and for whom, where nobody has chosen anything."""

Algorithm: TypeAlias = Literal["HS256", "HS384", "HS512"]

_KEY_BYTES: Final = {"HS256": 32, "HS384": 48, "HS512": 64}
"""The shortest keys that RFC 7518 lets sign: those of the hash's own length."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """How access tokens (JWT) are made and checked.

    Args:
        secret: The key that signs them; whoever knows it can be any user. 32 bytes or more, 48 for HS384, 64 for HS512.
        algorithm: How they are signed.
        issuer: Who makes them.
        audience: For whom.
        valid_issuers: Whose are taken; () takes its own.
        valid_audiences: Those for whom are taken; () takes its own.
        expiry_s: How long they are good for, seconds.
        not_before_s: From when on, seconds after they are made.
        clock_skew_s: By how much other clocks may be wrong, seconds.
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
                f"access tokens are signed by {', '.join(_KEY_BYTES)}, not by {self.algorithm}", where="http.jwt.algorithm"
            )
        least = _KEY_BYTES[self.algorithm]
        if len(self.secret) < least:
            raise InvalidInputError(
                f"a secret for {self.algorithm} has {least} bytes or more, this one has {len(self.secret)}",
                where="http.jwt",
                advice=f"Take {least} random bytes",
            )
        if self.expiry_s < 1 or self.not_before_s < 0 or self.clock_skew_s < 0:
            raise InvalidInputError("the times of access tokens are seconds from 0, the expiry from 1", where="http.jwt")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorsSettings:
    """What browsers let pages of other origins do.

    Args:
        allowed_origins: The origins, as in `https://example.org`; `*` is any.
        allowed_methods: The methods.
        allowed_headers: The headers of requests; `*` is any.
        exposed_headers: The headers of responses that they may read.
        allow_credentials: Whether cookies and the like travel.
        allow_private_network: Whether public pages may reach a private network.
    """

    allowed_origins: tuple[str, ...] = ("*",)
    allowed_methods: tuple[str, ...] = ("GET", "POST", "PUT", "DELETE")
    allowed_headers: tuple[str, ...] = ("content-type",)
    exposed_headers: tuple[str, ...] = ()
    allow_credentials: bool = False
    allow_private_network: bool = False

    def __post_init__(self) -> None:
        if self.allow_credentials and "*" in (*self.allowed_origins, *self.allowed_methods, *self.allowed_headers):
            raise InvalidInputError(
                "credentials are not allowed together with any (*) origin, method or header",
                where="http.cors",
                advice="Name them",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """What is decided for HTTP.

    Args:
        max_body_bytes: The most bytes of a request's body.
        max_binary_bytes: The most bytes of one with messages that is binary.
        max_connections: The most connections; more are closed at once.
        idle_s: How long a connection may be silent between requests, or in the middle of one's head, seconds.
        body_s: How long a request's body may take, seconds.
        reply_s: How long a client may take to read its reply, seconds.
        drain_s: How long stop() waits for what is being answered, seconds.
        metrics_path: Where the metrics are; None for nowhere.
        metrics_of_groups: Whether they tell how far consumer groups are behind: anybody learns the names of topics by them.
        cors: What pages of other origins may do; None leaves them nothing.
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
