"""Unit tests of headstream.replicate.settings.registry_settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headstream.errors import InvalidOptionError
from headstream.replicate.settings.registry_settings import RegistrySettings


@pytest.mark.parametrize(
    "settings",
    [{}, {"url": "http://h", "directory": Path("d")}, {"url": "ftp://h"}, {"url": "http://a:b@h"},
     {"url": "http://h", "user": "u", "token": "t"}, {"url": "http://h", "retries": -1}],
)  # fmt: skip
def test_settings_refuse_what_cannot_be_meant(settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidOptionError, match="registry"):
        RegistrySettings(**settings)


def test_settings_do_not_show_their_secrets() -> None:
    assert "s3cret" not in repr(RegistrySettings(url="http://h", user="u", password="s3cret"))
