"""Every example, and each page's code that promises it, runs as a program of its own; every link leads somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [
    ROOT / "docs" / name
    for name in (
        "client.md",
        "consuming.md",
        "durability.md",
        "formats.md",
        "handlers.md",
        "headers.md",
        "replicate-input.md",
        "retries.md",
    )
]
MADE_BY_THE_SITE = {"commands.md", "metrics.md", "settings.md"}
"""mkdocs checks the links to these pages."""
LINKING = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def run(source: str, directory: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source], cwd=directory, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(path: Path, tmp_path: Path) -> None:
    run(path.read_text("utf-8"), tmp_path)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_code_of_a_page_runs(path: Path, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", path.read_text("utf-8"), re.DOTALL)
    assert blocks
    run("\n".join(blocks), tmp_path)


def test_the_first_program_of_the_readme_runs(tmp_path: Path) -> None:
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    assert code is not None
    run(code[1].replace("file:///tmp/shop", f"file://{tmp_path}/shop"), tmp_path)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("page", "fewest"), [("README.md", 1), ("docs/topics.md", 5)])
def test_the_commands_of_a_page_run(page: str, fewest: int, tmp_path: Path) -> None:
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text("utf-8"), re.DOTALL)
    assert len(blocks) >= fewest
    script = 'set -eu\nheadstream() { "$PYTHON" -m headstream.cli "$@"; }\n' + "\n".join(blocks)
    script = script.replace("file:///tmp/shop-log", f"file://{tmp_path}/log")
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", LINKING, ids=lambda path: path.name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if "://" not in link:
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if page.parent.name == "docs" and path in MADE_BY_THE_SITE:
                continue
            assert target.exists(), link
            assert not anchor or anchor in anchors(target), link
