"""The tests that pages name as their evidence exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FEWEST = {"proof.md": 200}


@pytest.mark.parametrize("page", FEWEST)
def test_every_test_that_a_page_names_exists(page: str) -> None:
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"^(?:async )?def (test_\w+)", sources, re.MULTILINE))
    named = re.findall(r"`(test_\w+)`", (ROOT / "docs" / page).read_text("utf-8"))
    assert len(named) > FEWEST[page]
    assert set(named) - there == set()
