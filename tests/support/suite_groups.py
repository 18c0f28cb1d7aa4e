"""Which tests run in one process when pytest-xdist shares them out, and in which order: see `tools/run_tests.sh`.

All tests of the Kafka broker run in one process, and the tests of the Spark session in two, those of Replicate in one and the
others in the other, so that a broker and two sessions are started per run. The other tests are shared out file by file. The
costliest group begins first, so that all processes end at about the same time.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]

__all__ = ["GroupScheduling", "arrange", "find_group"]

_ROOT: Final = Path(__file__).parents[2]
_BUDGET_FILE: Final = _ROOT / "tests" / "suite_budget.json"
_OWN_GROUP_SECONDS: Final = 10.0
"""A test that costs more may run beside the others of its file."""


class GroupScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Give a process one group of tests after another."""

    def _split_scope(self, nodeid: str) -> str:
        return find_group(nodeid)


def arrange(items: list[pytest.Item]) -> None:
    """Sort tests by what their group costs, the costliest first."""
    costs: dict[str, float] = {}
    for item in items:
        group = find_group(item.nodeid)
        costs[group] = costs.get(group, 0.0) + _expected_cpu_seconds(item.nodeid)
    items.sort(key=lambda item: (-costs[find_group(item.nodeid)], find_group(item.nodeid)))


def find_group(nodeid: str) -> str:
    """Return the group of a test: `spark`, `spark replicate`, `kafka`, its file, or, if it is costly, the test itself."""
    path, _, name = nodeid.partition("::")
    shared = _shared_process(path)
    if shared is not None:
        return shared
    if path.startswith("tests/behaviour/") and "[kafka" in name:
        return "kafka"
    return nodeid if _expected_cpu_seconds(nodeid) > _OWN_GROUP_SECONDS else path


@cache
def _shared_process(path: str) -> str | None:
    """Return which of the shared processes the tests of a file use: what they take is in their source."""
    if not path.startswith("tests/integration/"):
        return None
    text = (_ROOT / path).read_text(encoding="utf-8")
    if "spark: SparkSession" in text:
        return "spark replicate" if path.startswith("tests/integration/replicate/") else "spark"
    return "kafka" if "empty_cluster" in text or "kafka_broker: KafkaBroker" in text else None


def _expected_cpu_seconds(nodeid: str) -> float:
    """Return what a test cost when the budget was written, in seconds of processor time."""
    unknown = 3.0 if nodeid.startswith("tests/integration/") else 0.02
    count, seconds = _budget()["others"].get(nodeid.partition("::")[0], (1, unknown))
    cost: float = _budget()["tests"].get(nodeid, seconds / count)
    return cost


@cache
def _budget() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(_BUDGET_FILE.read_text(encoding="utf-8"))
    return found
