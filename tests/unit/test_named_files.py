"""Files that docstrings and comments of src name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SRC = ROOT / "src/headstream"
USERS_FILES = {"job.py"}
"""Names of users' own programs in examples."""
_NAMED = re.compile(r"(?<![\w./*<-])[a-z_][\w/]*\.(?:py|pxd|h|md)\b")


@pytest.fixture(scope="module")
def paths() -> set[str]:
    """Return the path of each file of the repository, and each of its ends that begins at a folder or at the name."""
    folders = ("src", "tests", "bench", "tools", "docs", "examples", "vectors")
    files = [*ROOT.glob("*"), *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    parts = [path.relative_to(ROOT).parts for path in files if path.is_file()]
    return {"/".join(path[start:]) for path in parts for start in range(len(path))}


@pytest.mark.parametrize("room", sorted({path.relative_to(SRC).parts[0] for path in SRC.rglob("*.py")}))
def test_docstrings_name_files_that_exist(room: str, paths: set[str]) -> None:
    place = SRC / room
    modules = [place] if place.is_file() else place.rglob("*.py")
    missing = [
        f"{module.relative_to(ROOT)}: {name}"
        for module in modules
        for name in _NAMED.findall(module.read_text(encoding="utf-8"))
        if name not in paths and name not in USERS_FILES
    ]
    assert missing == []
