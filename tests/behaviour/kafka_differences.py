"""What tests of the suite do not hold over kafka://: a table of docs/proof.md."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

__all__ = ["differences", "skip_differing"]

_PAGE = Path(__file__).parents[2] / "docs" / "proof.md"


@cache
def differences() -> dict[str, str]:
    """Return the difference that stands against each test, by the test's name."""
    found: dict[str, str] = {}
    table = _PAGE.read_text(encoding="utf-8").partition("## Tests that do not apply over Kafka")[2].partition("\n## ")[0]
    for line in table.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3:
            found |= dict.fromkeys(re.findall(r"`(test_\w+)`", cells[2]), cells[1])
    return found


def skip_differing(request: pytest.FixtureRequest) -> None:
    """Skip a test over kafka:// if it is about something that is different there."""
    name = getattr(request.function, "__name__", "")
    if request.param == "kafka" and name in differences():
        pytest.skip(differences()[name])
