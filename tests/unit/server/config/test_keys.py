"""Unit tests of headstream.server.config.keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headstream.server.config.config import _Loader
from headstream.server.config.file import GivenValue, format_toml
from headstream.server.config.keys import KEYS, SECRETS
from tests.unit.server.config.test_config import load


def test_config_takes_every_key_of_the_original_and_names_those_without_meaning(tmp_path: Path) -> None:
    original = [key for key in KEYS if not key.startswith("headstream.")]
    config = load(tmp_path, format_toml((key, KEYS[key].default) for key in original if key not in SECRETS))
    told = ", ".join(config.warnings)
    for key in original:
        assert (key in told) == (KEYS[key].without is not None and KEYS[key].only is None and key not in SECRETS), key
    assert "quic.keep_alive_interval" in told
    assert "system.cache.size" in told


class ReadKeys(dict[str, Any]):
    """Values of keys, and which of them were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)


def test_keys_have_an_effect_unless_their_row_says_why_not() -> None:
    enabled = {key: True for key, entry in KEYS.items() if key.endswith(".enabled") and entry.without is None}
    named = {"headstream.root_username": "root", "headstream.root_password": "a-password", "http.jwt.encoding_secret": "s" * 32}
    read = set[str]()
    for given in ({}, {**enabled, **named, "quic.certificate.self_signed": False}):
        loader = _Loader([GivenValue(key, value, "a test") for key, value in given.items()])
        loader._values = values = ReadKeys()
        loader.load()
        read |= values.read
    assert [key for key, entry in KEYS.items() if entry.without is None and key not in read] == []
