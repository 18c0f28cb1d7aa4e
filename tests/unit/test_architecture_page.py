"""docs/architecture.md: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
HOUSE = PAGE.split("## 2. The house")[1].split("Imports point one way")[0]
PACKAGES = sorted(path.parent.name for path in (ROOT / "src/headstream").glob("*/__init__.py"))


def rooms() -> dict[str, str]:
    """Return what the page says of each package, and of what stands beside them."""
    found = {"": HOUSE}
    for package in PACKAGES:
        block = re.search(rf"^  {package}/(?: .*)?\n(?:(?:    .*)?\n)*", HOUSE, re.MULTILINE)
        assert block is not None, package
        found[package] = block[0]
        found[""] = found[""].replace(block[0], "")
    return found


@pytest.mark.parametrize("package", ["", *PACKAGES])
def test_every_file_that_the_house_names_is_in_that_package(package: str) -> None:
    named = re.findall(r"(?<![\w*/])(?:[\w*]+/)*[\w*]+\.py\b", rooms()[package])
    assert named or package in ("testing", "cli")
    place = ROOT / "src/headstream" / package
    missing = [name for name in named if not any(place.rglob(name)) and not (package == "" and (ROOT / name).exists())]
    assert missing == []


def test_every_file_that_the_other_sections_name_is_there() -> None:
    named = re.findall(r"`((?:[\w]+/)+[\w.]*)`", PAGE)
    assert len(named) > 10
    places = [ROOT, ROOT / "src/headstream", ROOT / "src/headstream/replicate"]
    missing = [
        name for name in named if name.split("/")[0] != "checkpoint" and not any((place / name).exists() for place in places)
    ]
    assert missing == []
