"""docs/formats.md: every vector that is taken apart there is the published one, and every file it names is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

ROOT = Path(__file__).parents[4]
PAGE = (ROOT / "docs/formats.md").read_text(encoding="utf-8").partition("\n## What is public\n")[0]


def test_vectors_that_are_taken_apart_are_the_published_ones() -> None:
    sections = re.findall(r"### [^\n]*\(`([a-z0-9-]+\.json)`, \"(.+?)\"\)\n\n```\n(.*?)```", PAGE, re.DOTALL)
    assert len(sections) == 5
    for name, title, text in sections:
        published = json.loads((ROOT / "vectors" / name).read_text(encoding="utf-8"))["vectors"]
        (vector,) = (vector for vector in published if vector["name"] == title)
        if name.startswith("json"):
            assert text.strip() == bytes.fromhex(vector["hex"]).decode()
        else:
            lines = [re.match(r"(?:[0-9a-f]{2,} ?)+(?=  |$)", line) for line in text.splitlines()]
            assert "".join(line[0].replace(" ", "") for line in lines if line) == vector["hex"]


def test_every_file_that_is_named_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (ROOT / "docs" / target).exists(), target
    for name in re.findall(r"`([a-z0-9-]+\.json)`", PAGE):
        assert (ROOT / "vectors" / name).exists(), name
