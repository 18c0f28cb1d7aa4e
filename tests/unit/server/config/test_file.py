"""Unit tests of headstream.server.config.file."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from headstream.server.config.config import load_config
from headstream.server.config.file import format_toml
from headstream.server.config.keys import KEYS
from tests.unit.server.config.test_config import refusal_of


def test_config_reads_variables_by_what_belongs_there() -> None:
    config = load_config(
        None,
        {
            "IGGY_HTTP_ENABLED": "false",
            "IGGY_PERSONAL_ACCESS_TOKEN_MAX_TOKENS_PER_USER": "3",
            "IGGY_HTTP_CORS_ALLOWED_ORIGINS": '["https://a.example", https://b.example]',
            "IGGY_ROOT_USERNAME": "admin",
            "IGGY_ROOT_PASSWORD": "12345",
            "HEADSTREAM_MAX_CONNECTIONS": "17",
            "HEADSTREAM_URL": "not the server's",
        },
    )
    assert config.http_address is None
    assert config.settings.most_tokens == 3
    assert config.http.cors is not None
    assert config.http.cors.allowed_origins == ("https://a.example", "https://b.example")
    assert (config.settings.root_username, config.settings.root_password) == ("admin", "12345")
    assert config.tcp.max_connections == 17


@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"IGGY_TCP_ADDRES": "x"}, "IGGY_TCP_ADDRES: unknown setting; did you mean tcp.address?"),
        ({"HEADSTREAM_SYSTEM_PAHT": "x"}, "did you mean system.path?"),
        ({"IGGY_ROOT_USERNAME": "admin"}, "must be set together"),
        ({"IGGY_ROOT_USERNAME": "admin", "IGGY_ROOT_PASSWORD": "12"}, "password"),
    ],
)
def test_config_refuses_variables_that_cannot_be_used(tmp_path: Path, environ: dict[str, str], told: str) -> None:
    assert told in refusal_of(tmp_path, "", environ)


def test_format_toml_writes_what_a_file_would_say(tmp_path: Path) -> None:
    spelled = {key: entry.default for key, entry in KEYS.items()} | {"system.path": 'a "quoted"\n\x7f path'}
    document = tomllib.loads(format_toml(spelled.items()))
    assert document["system"]["path"] == spelled["system.path"]
    assert document["http"]["cors"]["allowed_methods"] == ["GET", "POST", "PUT", "DELETE"]
    assert document["headstream"]["max_connections"] == 10_000
    assert document["tcp"]["enabled"] is True
