"""Unit tests of headstream.server.config.keys."""

from __future__ import annotations

from pathlib import Path

from headstream.server.config.file import format_toml
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
