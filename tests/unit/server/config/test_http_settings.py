"""Unit tests of headstream.server.config.http_settings."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.errors import InvalidInputError
from headstream.server.config.http_settings import TokenSettings
from tests.unit.server.http.test_tokens import SECRET


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"secret": b"x" * 31}, "at least 32 bytes"),
        ({"secret": b"x" * 47, "algorithm": "HS384"}, "at least 48 bytes"),
        ({"secret": b"x" * 63, "algorithm": "HS512"}, "at least 64 bytes"),
        ({"secret": SECRET, "algorithm": "RS256"}, "RS256"),
        ({"secret": SECRET, "expiry_s": 0}, "expiry"),
        ({"secret": SECRET, "not_before_s": -1}, "expiry"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(settings: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidInputError, match=what):
        TokenSettings(**settings)


def test_a_secret_is_not_shown() -> None:
    assert SECRET.decode() not in repr(TokenSettings(secret=SECRET))
