"""The documentation site: its links are whole, every page is in its navigation, and it loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).parents[2]
pytest.importorskip("mkdocs")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(ROOT / "mkdocs.yml"), "-d", str(directory)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return directory


def test_site_has_every_page_and_the_files_they_link_to(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} | {"commands", "settings", "metrics"}
    assert pages <= {path.stem for path in site.glob("*.html")}
    assert (site / "source/examples/replicate.toml.txt").read_bytes() == (ROOT / "examples/replicate.toml").read_bytes()
    assert "headstream replicate run" in (site / "commands.html").read_text()


def test_addresses_of_merged_pages_lead_to_pages_of_the_site(site: Path) -> None:
    moved = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8").partition("\nextra:")[2].partition("\nnav:")[0])["moved"]
    assert len(moved) > 15
    for old, new in moved.items():
        assert f'content="0; url={new}.html"' in (site / f"{old}.html").read_text()
        assert (site / f"{new}.html").exists()
        assert not (ROOT / f"docs/{old}.md").exists()


def test_site_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(
        r"""<(?:script|img|iframe|source)[^>]*\ssrc="(https?:)?//|<link(?![^>]*rel="canonical")[^>]*\shref="(https?:)?//"""
    )
    found = [path.name for path in site.glob("*.html") if loaded.search(path.read_text())]
    assert found == []


@pytest.mark.parametrize("page", [*sorted(path.stem for path in (ROOT / "docs").glob("*.md")), "commands", "settings", "metrics"])
def test_each_page_begins_with_its_readers(site: Path, page: str) -> None:
    if page == "index":  # a section for each kind of reader
        assert len(re.findall(r"<h2[^>]*>You ", (site / "index.html").read_text())) == 4
        return
    text = re.sub(r"<[^>]+>", " ", (site / f"{page}.html").read_text().partition("<h1")[2].partition("</h1>")[2])
    opening = " ".join(text.split())[:700]
    assert re.search(r"\bfor (?!example)\w", opening, re.IGNORECASE), opening
