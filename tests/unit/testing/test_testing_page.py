"""docs/testing.md: its examples run, one after the other, and what they assert holds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/testing.md").read_text(encoding="utf-8")


def test_examples_of_the_page_run() -> None:
    names: dict[str, Any] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) >= 6
    for code in blocks:
        exec(compile(code, "docs/testing.md", "exec"), names)
    assert len(names["batches"]) == 5
    assert sum(map(len, names["batches"])) == len(names["arrived"]) > len(names["messages"])
    assert len(names["history"]) > len(names["opened"])


def test_every_page_that_is_named_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
