"""The page of settings: it has what the code reads, each with a text, and the pages about Spark tell every option."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.settings_page import make_page

from headstream.replicate.settings.config_file import _pipeline_readers
from headstream.server.config.keys import KEYS
from headstream.spark.sink import options as sink
from headstream.spark.source import options as source

DOCS = Path(__file__).parents[2] / "docs"
PAGE = make_page()


def rows(begin: str, end: str) -> dict[str, str]:
    """Return the last column of each row between two lines, by its name."""
    part = PAGE[PAGE.index(begin) : PAGE.index(end)]
    return {name: text.strip() for name, text in re.findall(r"^\| `([^`]+)` \|.*\|([^|]*)\|$", part, re.MULTILINE)}


def test_page_has_every_key_of_the_server_and_why_one_has_no_effect() -> None:
    found = rows("## The server", "## A Replicate pipeline")
    assert set(found) == set(KEYS)
    assert all(key.without in found[name] for name, key in KEYS.items() if key.without)
    assert "`HEADSTREAM_MAX_CONNECTIONS`" in PAGE


def test_page_has_every_setting_that_a_pipelines_file_can_have_with_a_text() -> None:
    found = rows("## A Replicate pipeline", "### `[defaults]`")
    assert set(found) == set(_pipeline_readers(Path()))
    everything = rows("## A Replicate pipeline", "## Spark")
    assert [name for name, text in everything.items() if len(text) < 8] == []
    assert "| `schema_wait` | `60s` |" in PAGE


@pytest.mark.parametrize(("page", "names"), [("spark", source.OPTION_NAMES), ("spark", sink.OPTION_NAMES)])
def test_pages_about_spark_tell_every_option(page: str, names: tuple[str, ...]) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    assert [name for name in names if not re.search(rf"`{name}\b", text)] == []


def test_page_of_the_server_tells_every_key_of_its_own() -> None:
    text = (DOCS / "server.md").read_text(encoding="utf-8")
    assert [name for name in KEYS if name.startswith("headstream.") and f"`{name}`" not in text] == []
