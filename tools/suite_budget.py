"""Compare what the tests took with what they may take, and print where the time went.

    tools/suite_budget.py              name the tests and files that became much slower than tests/suite_budget.json says
    tools/suite_budget.py table        print wall-clock time, processor time and the 40 costliest tests
    tools/suite_budget.py write        write tests/suite_budget.json: these tests alone, so give it whole runs

Each takes the files of times to read; without one, `.cache/suite-times.json`, which a run of the tests writes. Times are
processor seconds, which other load changes less than wall-clock time. The comparison is a report: it ends with 0 also where
something became slower, since the machine may have been busy.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
BUDGET: Final = ROOT / "tests" / "suite_budget.json"
TIMES: Final = ROOT / ".cache" / "suite-times.json"
_LISTED_SECONDS: Final = 1.0
"""A test that costs more has a line of its own in the budget; the others are one line per file."""
_SLOWER: Final = 3.0
_FILE_SLOWER: Final = 1.5
_LEAST_SECONDS: Final = 2.0
"""Differences below this are noise."""
_SHOWN: Final = 40


def read_times(paths: list[Path]) -> dict[str, Any]:
    """Return the times of several runs as if they were one."""
    found: dict[str, Any] = {"wall_seconds": 0.0, "cpu_seconds": 0.0, "tests": {}}
    for path in paths:
        times = json.loads(path.read_text(encoding="utf-8"))
        found["wall_seconds"] += times["wall_seconds"]
        found["cpu_seconds"] += times["cpu_seconds"]
        found["tests"] |= times["tests"]
    return found


def make_budget(tests: dict[str, float]) -> dict[str, Any]:
    """Return the budget that these tests fit: costly tests by name, and the number and seconds of the others per file."""
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    for name, cpu in tests.items():
        if cpu < _LISTED_SECONDS:
            counts[file_of(name)] += 1
            seconds[file_of(name)] += cpu  # type: ignore[assignment]
    listed = {name: round(cpu, 1) for name, cpu in sorted(tests.items()) if cpu >= _LISTED_SECONDS}
    return {"tests": listed, "others": {name: [counts[name], round(seconds[name], 2)] for name in sorted(counts)}}


def format_budget(budget: dict[str, Any]) -> str:
    """Return the budget as JSON with a line per test and per file."""
    rows = {part: ",\n".join(f"{json.dumps(name)}: {json.dumps(cost)}" for name, cost in budget[part].items()) for part in budget}
    return "{\n" + ",\n".join(f'"{part}": {{\n{text}\n}}' for part, text in rows.items()) + "\n}\n"


def file_of(name: str) -> str:
    """Return the file that a test is in."""
    return name.partition("::")[0]


def compare(budget: dict[str, Any], tests: dict[str, float]) -> list[str]:
    """Return a line for each test that became three times as slow, and each file that takes half as much again."""
    lines = []
    files: Counter[str] = Counter()
    allowed: Counter[str] = Counter()
    for name, cpu in tests.items():
        count, seconds = budget["others"].get(file_of(name), (0, 0.0))
        is_known = name in budget["tests"] or count > 0
        may = budget["tests"].get(name, seconds / max(count, 1))
        files[file_of(name)] += cpu  # type: ignore[assignment]
        allowed[file_of(name)] += may
        if is_known and cpu > max(_SLOWER * may, may + _LEAST_SECONDS):
            lines.append(f"{name}: {cpu:.1f} s of processor time, {may:.1f} s in the budget")
    total = sum(allowed.values())
    for name, cpu in files.items():
        if cpu > max(_FILE_SLOWER * allowed[name], allowed[name] + _LEAST_SECONDS):
            share = 100 * allowed[name] / total if total else 0.0
            lines.append(f"{name}: {cpu:.1f} s of processor time; its share is {allowed[name]:.1f} s ({share:.1f} %)")
    return lines


def make_table(times: dict[str, Any]) -> str:
    """Return wall-clock time, processor time and the costliest tests as text."""
    tests: dict[str, list[float]] = times["tests"]
    kinds: Counter[str] = Counter()
    for name, (_, cpu) in tests.items():
        kinds["/".join(name.split("/")[:2])] += cpu  # type: ignore[assignment]
    lines = [
        f"{len(tests)} tests, {times['wall_seconds'] / 60:.1f} min of wall-clock time, "
        f"{sum(cpu for _, cpu in tests.values()) / 60:.1f} min of processor time in tests, "
        f"{times['cpu_seconds'] / 60:.1f} min with collection and start-up",
        "",
        *(f"{seconds:10.1f} s of processor time  {kind}" for kind, seconds in kinds.most_common()),
        "",
        " processor s      wall s  test",
    ]
    costliest = sorted(tests.items(), key=lambda test: -test[1][1])[:_SHOWN]
    return "\n".join([*lines, *(f"{cpu:12.1f}{wall:12.1f}  {name}" for name, (wall, cpu) in costliest)])


def main(arguments: list[str]) -> int:
    """Carry out the command; return 0."""
    does = arguments[0] if arguments and arguments[0] in ("table", "write") else "compare"
    paths = [Path(name) for name in arguments if name != does] or [TIMES]
    times = read_times(paths)
    tests = {name: cpu for name, (_, cpu) in times["tests"].items()}
    if does == "table":
        print(make_table(times))  # noqa: T201
    elif does == "write":
        BUDGET.write_text(format_budget(make_budget(tests)), encoding="utf-8")
    else:
        lines = compare(json.loads(BUDGET.read_text(encoding="utf-8")), tests)
        print("\n".join(lines) if lines else "All tests are within tests/suite_budget.json.")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
