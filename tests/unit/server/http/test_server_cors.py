"""CORS: which headers a browser is told, by what is allowed and what it says."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.errors import InvalidInputError
from headstream.server.config.http_settings import CorsSettings
from headstream.server.http.server import cors_headers, preflight_headers

VARY = {"Vary": "origin, access-control-request-method, access-control-request-headers"}
ALLOW = "Access-Control-Allow-"
PAGE = "https://page.example"


@pytest.mark.parametrize(
    ("settings", "request_headers", "expected"),
    [
        ({}, {}, {}),
        ({}, {"Origin": PAGE}, {}),
        ({"allowed_origins": ("*",)}, {}, {f"{ALLOW}Origin": "*"}),
        ({"allowed_origins": ("*",)}, {"Origin": PAGE}, {f"{ALLOW}Origin": "*"}),
        ({"allowed_origins": (PAGE, "https://b")}, {"Origin": PAGE}, {f"{ALLOW}Origin": PAGE}),
        ({"allowed_origins": (PAGE,)}, {"Origin": "https://evil"}, {}),
        ({"allowed_origins": (PAGE,)}, {}, {}),
        ({"allowed_origins": ("", PAGE)}, {"Origin": ""}, {}),
        ({"exposed_headers": ("", "x-a", "x-b")}, {}, {"Access-Control-Expose-Headers": "x-a,x-b"}),
        (
            {"allowed_origins": (PAGE,), "allow_credentials": True},
            {"Origin": PAGE},
            {f"{ALLOW}Origin": PAGE, f"{ALLOW}Credentials": "true"},
        ),
    ],
)
def test_a_response_says_what_is_allowed(
    settings: dict[str, Any], request_headers: dict[str, str], expected: dict[str, str]
) -> None:
    assert cors_headers(CorsSettings(**settings), request_headers) == expected | VARY


@pytest.mark.parametrize(
    ("settings", "request_headers", "expected"),
    [
        ({}, {}, {f"{ALLOW}Methods": "GET,POST,PUT,DELETE", f"{ALLOW}Headers": "content-type"}),
        ({"allowed_headers": ("*",), "allowed_methods": ("GET", "")}, {}, {f"{ALLOW}Methods": "GET", f"{ALLOW}Headers": "*"}),
        ({"allowed_headers": (), "allowed_methods": (), "exposed_headers": ("x",)}, {}, {}),
        (
            {"allow_private_network": True, "allowed_headers": (), "allowed_methods": ()},
            {"Access-Control-Request-Private-Network": "true"},
            {f"{ALLOW}Private-Network": "true"},
        ),
        ({"allow_private_network": True, "allowed_headers": (), "allowed_methods": ()}, {}, {}),
    ],
)
def test_preflight_headers_name_the_allowed_methods_and_headers(
    settings: dict[str, Any], request_headers: dict[str, str], expected: dict[str, str]
) -> None:
    assert preflight_headers(CorsSettings(**settings), request_headers) == expected | VARY


@pytest.mark.parametrize("name", ["allowed_origins", "allowed_methods", "allowed_headers"])
def test_credentials_for_anybody_are_refused(name: str) -> None:
    named: dict[str, Any] = {"allowed_origins": (PAGE,), "allowed_methods": ("GET",), "allowed_headers": ("x",)}
    with pytest.raises(InvalidInputError, match="credentials"):
        CorsSettings(allow_credentials=True, **{**named, name: ("*",)})
    CorsSettings(allow_credentials=True, **named)
