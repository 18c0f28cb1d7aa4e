"""Files for contributors: the CI configuration, issue forms, and the pages that name files and versions."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from headstream.log.catalog.schema import VERSION as CATALOG_VERSION
from headstream.log.segments.layout import COMPACTED_VERSION, FORMAT_VERSION, INDEX_VERSION
from headstream.replicate.parked.ledger_schema import STEPS
from headstream.spark.sessions.spark_home import SOURCE_VERSIONS

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github/workflows/ci.yml"
NIGHTLY = ROOT / ".github/workflows/nightly.yml"
RELEASE = ROOT / ".github/workflows/release.yml"
_LIST_IMPORTS = """
import sys
before = set(sys.modules)
import headstream
roots = {name.partition(".")[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)
print(*sorted(name for name in roots if "cython" not in name))
"""


def jobs(workflow: Path = WORKFLOW) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return found


def test_workflow_runs_only_targets_that_the_makefile_has() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    commands = [step["run"] for job in jobs().values() for step in job["steps"] if "run" in step]
    named = [re.fullmatch(r"make ([a-z-]+)", command) for command in commands]
    assert all(named), commands
    used = {match[1] for match in named if match}
    assert {"check", "test"} <= used <= targets


def test_workflow_tests_the_pythons_that_wheels_are_built_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    matrix = jobs(NIGHTLY)["test"]["strategy"]["matrix"]
    assert [f"cp{python.replace('.', '')}-*" for python in matrix["python"]] == project["tool"]["cibuildwheel"]["build"]
    assert matrix["java"] == ["17", "21"]
    (first,) = [step["with"]["python-version"] for step in jobs()["test"]["steps"] if "python-version" in step.get("with", {})]
    assert [first, *jobs()["unit"]["strategy"]["matrix"]["python"]] == matrix["python"]


def test_workflow_tests_the_versions_of_spark_that_the_source_runs_in() -> None:
    job = jobs(NIGHTLY)["spark"]
    assert tuple(job["strategy"]["matrix"]["spark"]) == SOURCE_VERSIONS
    make, install, tests = [step["run"] for step in job["steps"] if "run" in step]
    assert make == "make jars"
    assert install == '.venv/bin/python -m pip install "pyspark==${{ matrix.spark }}.*"'
    assert {word for word in tests.split() if (ROOT / word).is_dir()} == {"tests/integration/spark"}


def test_release_runs_steps_that_there_are_on_the_machines_that_ci_tries() -> None:
    release = jobs(RELEASE)
    commands = [step["run"] for job in release.values() for step in job["steps"] if "run" in step]
    steps = re.findall(r"tools/release\.py (\w+)", "\n".join(commands))
    assert steps == ["check", "sums", "notes"]
    source = (ROOT / "tools/release.py").read_text(encoding="utf-8")
    assert set(steps) <= set(re.findall(r"^def ([a-z]+)\(", source, re.MULTILINE))
    assert "make release" in commands
    assert release["wheels"]["strategy"]["matrix"] == jobs()["wheels"]["strategy"]["matrix"]


@pytest.mark.parametrize("name", ["bug", "question"])
def test_issue_form_has_the_members_that_a_forge_needs(name: str) -> None:
    form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    assert all(field["attributes"]["label"] for field in fields)
    assert len({field["id"] for field in fields}) == len(fields) > 0


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "SECURITY.md", "docs/formats.md", ".github/PULL_REQUEST_TEMPLATE.md"])
def test_page_names_paths_that_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    paths = re.findall(r"`((?:src|tests|docs|tools|bench)/[\w./-]*)`", text)
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "<" not in link]
    missing = [path for path in paths if not (ROOT / path).exists()]
    missing += [link for link in links if not (ROOT / page).parent.joinpath(link).exists() and link != "settings.md"]
    assert missing == []
    assert len(paths) + len(links) > 0


def test_compatibility_page_has_the_current_versions() -> None:
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    rows = {cells[1].strip(): cells[2].strip() for line in page.splitlines() if len(cells := line.split("|")) > 4}
    assert rows["a log's directory"] == str(FORMAT_VERSION)
    assert rows["`catalog.sqlite` of a log"] == str(CATALOG_VERSION)
    assert (
        rows["a segment's `.index`"]
        == f"1; {COMPACTED_VERSION} after compaction (2 in older files); {INDEX_VERSION} after marked messages were removed"
    )
    assert rows["`ledger.sqlite` of a pipeline's checkpoint"] == str(len(STEPS))


def test_compatibility_page_has_the_pinned_versions() -> None:
    page = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    for package in ("deltalake", "confluent-kafka", "aiokafka"):
        assert f"`{package}` {pinned[package]}" in page
    for package in ("pyspark", "pyarrow", "pandas"):
        assert re.search(rf"(?<![\d.]){re.escape(pinned[package])}(?![\d.]*\d)", page), package


def test_results_of_benchmarks_say_their_day_and_exist_for_each_program_that_a_page_names() -> None:
    results = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "bench/results").glob("*.txt")}
    assert [name for name, text in results.items() if not re.match(r"20\d\d-\d\d-\d\d: ", text)] == []
    pages = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    named = {*re.findall(r"\bbench\.(\w+)`", pages), *re.findall(r"bench/results/(\w+)\.txt", pages)}
    assert named - results.keys() == set()
    assert len(named) > 20


def test_import_of_headstream_loads_no_third_party_module() -> None:
    done = subprocess.run([sys.executable, "-c", _LIST_IMPORTS], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["headstream"]
