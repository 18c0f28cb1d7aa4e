"""The page of proofs lists exactly the tests of the suite that are skipped there."""

from __future__ import annotations

import re
from pathlib import Path

from tests.behaviour.kafka_differences import differences

_SUITE = Path(__file__).parent
_PAGE = _SUITE.parents[1] / "docs" / "proof.md"


def kafka_tests() -> set[str]:
    """Return the names of the tests that run over kafka://: those of the fixtures that have it as a parameter."""
    names: set[str] = set()
    for file in _SUITE.glob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        if "import Place" not in text and "skip_differing" not in text:
            continue
        for name, arguments in re.findall(r"^def (test_\w+)\(([^)]*)\)", text, re.MULTILINE):
            if re.search(r"\b(place|log|send|url):", arguments):
                names.add(name)
    return names


def test_every_difference_is_a_test_of_the_suite_and_has_a_reason() -> None:
    assert differences().keys() <= kafka_tests()
    assert all(len(reason) > 20 for reason in differences().values())


def test_a_test_is_listed_once() -> None:
    section = _PAGE.read_text(encoding="utf-8").partition("## Tests that do not apply over Kafka")[2].partition("\n## ")[0]
    listed = re.findall(r"`(test_\w+)`", section)
    assert sorted(listed) == sorted(set(listed))
    assert set(listed) == differences().keys()
