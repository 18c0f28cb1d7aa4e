"""Every example, and every Python block of the pages that promise it, runs as a program of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "docs" / "consuming.md", ROOT / "docs" / "headers.md"]


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
