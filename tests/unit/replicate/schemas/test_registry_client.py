"""Unit tests of headstream.replicate.schemas.registry_client."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from headstream.errors import StorageError
from headstream.replicate.schemas.registry_client import RegistryClient
from headstream.replicate.settings.registry_settings import RegistrySettings
from tests.unit.replicate.schemas.test_registry import VALUE, Server, server

__all__ = ["server"]  # fixtures


@pytest.mark.parametrize(
    ("settings", "sent"),
    [
        ({"user": "me", "password": "pä:ss"}, f"Basic {base64.b64encode('me:pä:ss'.encode()).decode()}"),
        ({"token": "t0"}, "Bearer t0"),
        ({}, None),
    ],
)
def test_client_says_who_asks(server: Server, settings: dict[str, Any], sent: str | None) -> None:
    assert RegistryClient(RegistrySettings(url=server.url, **settings)).fetch(7) == VALUE
    assert server.asked == [("/schemas/ids/7", sent)]


def test_client_asks_again_after_failures_that_pass_and_keeps_what_it_was_told(server: Server) -> None:
    server.answers = [503, 500, 429]
    client = RegistryClient(RegistrySettings(url=server.url + "/"))
    assert client.fetch(7) == VALUE
    assert client.fetch(7) == VALUE
    assert len(server.asked) == 4


@pytest.mark.parametrize(("answers", "count"), [([401], 1), ([503] * 3, 3), ([302], 1)])
def test_client_names_the_registry_when_it_cannot_be_asked(server: Server, answers: list[int], count: int) -> None:
    server.answers = answers
    with pytest.raises(StorageError, match=rf"schema 7: HTTP status {answers[0]}"):
        RegistryClient(RegistrySettings(url=server.url, retries=2)).fetch(7)
    assert len(server.asked) == count
