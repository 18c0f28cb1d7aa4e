"""CORS headers: what browsers allow pages of other origins; needs no token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from headstream.server.config.http_settings import CorsSettings

__all__ = ["cors_headers", "preflight_headers"]

_VARY: Final = "origin, access-control-request-method, access-control-request-headers"


def cors_headers(settings: CorsSettings, request: Mapping[str, str]) -> dict[str, str]:
    """Return the CORS headers of every response.

    Args:
        settings: What is allowed.
        request: The headers of the request.
    """
    headers = {"Vary": _VARY}
    origin = request.get("Origin")
    if "*" in settings.allowed_origins:
        headers["Access-Control-Allow-Origin"] = "*"
    elif origin and origin in settings.allowed_origins:
        headers["Access-Control-Allow-Origin"] = origin
    if settings.allow_credentials:
        headers["Access-Control-Allow-Credentials"] = "true"
    exposed = [name for name in settings.exposed_headers if name]
    if exposed:
        headers["Access-Control-Expose-Headers"] = ",".join(exposed)
    return headers


def preflight_headers(settings: CorsSettings, request: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of the response to a preflight (OPTIONS); arguments as for cors_headers()."""
    headers = cors_headers(settings, request)
    headers.pop("Access-Control-Expose-Headers", None)
    for name, allowed in (("Methods", settings.allowed_methods), ("Headers", settings.allowed_headers)):
        named = [item for item in allowed if item]
        if named:
            headers[f"Access-Control-Allow-{name}"] = ",".join(named)
    if settings.allow_private_network and request.get("Access-Control-Request-Private-Network") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return headers
