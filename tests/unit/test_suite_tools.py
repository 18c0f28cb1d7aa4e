"""What arranges the tests, and what compares their times with the budget."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.suite_times import tree_cpu_seconds
from tests.support.tiers import FIRST_TIER, leave_for_other_nights, take_fewer_examples
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]


def load_tool(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, ROOT / f"tools/{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[name] = module  # its dataclasses look there
    specification.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def budget() -> ModuleType:
    return load_tool("suite_budget")


def test_make_parts_puts_each_file_in_one_part_and_those_that_share_a_session_or_broker_together() -> None:
    files = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")]
    tool = load_tool("run_test_parts")
    parts = tool.make_parts(files, {"tests/unit/test_start.py": 50.0}, 4)
    assert sorted(file for part in parts for file in part.files) == sorted(files)
    shared = {"spark", "spark-replicate", "kafka", "every-kind-of-log", "console"}
    assert {part.name for part in parts[:5]} == shared, "they take longest"
    assert all(first.cost >= second.cost for first, second in itertools.pairwise(parts[5:])), "then the costliest first"
    quick = [part.cost for part in parts if part.name.startswith("unit")]
    assert max(quick) <= min(quick) + 50, "the processes end together"
    found = {file: part.name for part in parts for file in part.files}
    assert found["tests/integration/replicate/test_pipeline.py"] == "spark-replicate"
    assert found["tests/integration/spark/test_sink_stream.py"] == "spark"
    assert (
        found["tests/integration/kafka/test_kafka_client.py"] == found["tests/integration/kafka/test_kafka_clients.py"] == "kafka"
    )
    assert found["tests/behaviour/test_ids_behaviour.py"] == "every-kind-of-log"
    assert found["tests/behaviour/test_cli.py"].startswith("behaviour")
    campaigns = [part.name for part in parts if part.name.startswith("campaigns")]
    ordered = tool.begin_with_campaigns(parts, 2)
    assert campaigns
    assert [(part.name, part.workers) for part in ordered[: len(campaigns)]] == [(name, 2) for name in campaigns]
    assert all(part.workers == 0 for part in ordered[len(campaigns) :])


def test_run_reports_failures_and_skips_of_all_parts_and_writes_their_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_good.py").write_text(
        "import atexit, pytest\natexit.register(print, 'an exit')\ndef test_x(): pass\ndef test_y(): pytest.skip('no tool')\n"
    )
    (tmp_path / "test_bad.py").write_text("def test_z(): raise ValueError('bad')\n")
    tool = load_tool("run_test_parts")
    monkeypatch.setattr(tool, "OUTPUT", tmp_path / "cache" / "suite")
    parts = [tool.Part(name, [str(tmp_path / f"test_{name}.py")]) for name in ("good", "bad")]
    assert tool.run(parts[:1], [], 1) == 0
    assert tool.run(parts, ["-p", "tests.conftest"], 2) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("SKIPPED") and line.endswith("no tool") for line in lines)
    assert lines[-2].startswith("FAILED")
    assert "test_bad.py::test_z" in lines[-2]
    assert all(count in lines[-1] for count in ("1 passed", "1 skipped", "1 failed"))
    times = json.loads((tmp_path / "cache" / "suite-times.json").read_text(encoding="utf-8"))
    assert sorted(name.partition("::")[2] for name in times["tests"]) == ["test_x", "test_y", "test_z"]


MARKED = """
import pytest
sizes, ways = pytest.mark.parametrize("size", [1, 2, 3]), pytest.mark.parametrize("way", ["x", "y"])

@pytest.mark.parametrize("mode", ["a", "b"])
@pytest.mark.parametrize("seed", range(3))
def test_seeds(seed, mode): pass

@ways
@sizes
def test_values(size, way): pass

@pytest.mark.every_combination
@ways
@sizes
def test_all(size, way): pass

@pytest.mark.parametrize("size, way", [(1, "x"), (1, "y"), (2, "x"), (2, "y")])
def test_table(size, way): pass
"""


def test_first_tier_has_one_seed_and_each_value_once_and_all_rows_of_a_table(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_addoption, pytest_collection_modifyitems\n")
    (tmp_path / "test_it.py").write_text(MARKED)
    options = f"markers = nightly\n every_combination\npythonpath = {ROOT}\naddopts = -p no:cacheprovider\n"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\n{options}")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--collect-only",
        "-m",
        "not nightly",
        "--rootdir",
        str(tmp_path),
        "test_it.py",
    ]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    found: dict[str, list[str]] = {}
    for name, _, values in (
        line.partition("::")[2].rstrip("]").partition("[") for line in ran.stdout.splitlines() if "::" in line
    ):
        found.setdefault(name, []).append(values)
    assert found.pop("test_seeds") == ["0-a", "0-b"], ran.stdout + ran.stderr
    assert found.pop("test_values") == ["1-x", "2-y", "3-x"]
    assert {name: len(values) for name, values in found.items()} == {"test_all": 6, "test_table": 4}


def test_a_week_has_each_campaign_once() -> None:
    names = [*(f"test_kills[{number}]" for number in range(10)), "test_fuzz", "test_quick"]
    runs = Counter[str]()
    for night in range(100, 107):
        items: Any = [
            SimpleNamespace(nodeid=name, get_closest_marker=lambda _, name=name: name != "test_quick" or None) for name in names
        ]
        left = leave_for_other_nights(items, night)
        assert 1 < len(items) < 5
        assert sorted(item.nodeid for item in [*items, *left]) == sorted(names)
        runs.update(item.nodeid for item in items)
    assert runs.pop("test_quick") == 7
    assert set(runs.values()) == {1}


def test_take_fewer_examples_divides_them_once_per_function() -> None:
    @settings(max_examples=200)
    @given(st.integers())
    def many(number: int) -> None: ...

    @settings(max_examples=5)
    @given(st.integers())
    def few(number: int) -> None: ...

    tests: Any = [SimpleNamespace(obj=many), SimpleNamespace(obj=few), SimpleNamespace(obj=many), SimpleNamespace()]
    take_fewer_examples(tests)
    counts = []
    for test in (many, few):
        calls = 0

        def counted(number: int) -> None:
            nonlocal calls
            calls += 1

        test.hypothesis.inner_test = counted  # type: ignore[attr-defined]
        test()
        counts.append(calls)
    assert counts == [33, 5]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert f"-m '{FIRST_TIER}'" in project["tool"]["pytest"]["ini_options"]["addopts"]


def test_tree_cpu_seconds_counts_a_child_while_it_runs_and_when_it_has_ended() -> None:
    if not Path("/proc/self/stat").exists():
        pytest.skip("the system has no /proc")
    parent = subprocess.Popen(
        [sys.executable, "-c", "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'while True: pass'])"],
        start_new_session=True,
    )
    try:
        wait_until(lambda: tree_cpu_seconds(parent.pid) >= 0.3)
    finally:
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()


def test_budget_names_the_test_and_the_file_that_became_slower_and_nothing_else(budget: ModuleType) -> None:
    before = {"tests/a.py::test_x": 5.0, "tests/a.py::test_y": 0.2, "tests/b.py::test_z[1]": 4.0, "tests/b.py::test_z[2]": 0.1}
    written = budget.make_budget(before)
    assert written == {
        "tests": {"tests/a.py::test_x": 5.0, "tests/b.py::test_z[1]": 4.0},
        "others": {"tests/a.py": [1, 0.2], "tests/b.py": [1, 0.1]},
    }
    assert budget.compare(written, before) == []
    assert budget.compare(written, {name: 1.4 * cpu for name, cpu in before.items()}) == []
    lines = budget.compare(written, before | {"tests/a.py::test_x": 16.0})
    assert [line.partition(": ")[0] for line in lines] == ["tests/a.py::test_x", "tests/a.py"]


def test_table_has_the_costliest_tests_first(budget: ModuleType) -> None:
    times = {
        "wall_seconds": 60.0,
        "cpu_seconds": 90.0,
        "tests": {f"tests/unit/a.py::test_{n}": [1.0, float(n)] for n in range(50)},
    }
    table = budget.make_table(times)
    assert table.startswith("50 tests, 1.0 min of wall-clock time, 20.4 min of processor time in tests, 1.5 min with")
    shown = [line.split("::")[1] for line in table.splitlines() if "::" in line]
    assert shown == [f"test_{n}" for n in range(49, 9, -1)]
