"""Tables in Azure's and Google's storage that Spark writes, by Hadoop's ABFS and by Google's connector."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.replicate import store_spark_jobs
from tests.support.replicate.store_servers import AZURE_KEY, SERVERS

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROWS = [[1, "update1"], [3, "insert3"], [4, "insert4"]]


def run_job(directory: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """Return what a job has found, and its output."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-m", store_spark_jobs.__name__, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=directory, timeout=800)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return json.loads((directory / "found.json").read_text()), ran.stdout + ran.stderr


@pytest.mark.parametrize(
    ("kind", "length"),
    [
        ("azure", "short"),
        ("google", "short"),
        pytest.param("azure", "long", marks=pytest.mark.soak),
        pytest.param("google", "long", marks=pytest.mark.soak),
    ],
)
def test_spark_merges_tables_that_are_read_by_name_and_makes_one_of_several_commits(
    tmp_path: Path, kind: str, length: str
) -> None:
    with SERVERS[kind](tmp_path):  # skips without the server's program
        pass
    found, output = run_job(tmp_path, kind, str(tmp_path), length)
    for summary in found["summaries"]:
        assert (summary["failing"], summary["parked"], summary["dead"]) == ({}, 0, 0)
    assert found["rows"] == [ROWS] * (2 if length == "long" else 1)
    assert set(found["made"]) == {1}, "each commit is made by one of its writers"
    assert "nowhere" in found["refused"]
    other = {"azure": "gcs", "google": "azure"}[kind]
    assert f"Fetch them with `headstream jars --with {other}`" in found["lacking"]
    texts = [output, found["refused"], *found["pages"], *(path.read_bytes().decode(errors="replace") for path in files(tmp_path))]
    assert len(texts) > 20
    assert not any(AZURE_KEY in text for text in texts)


def files(directory: Path) -> list[Path]:
    """The checkpoint's files, and the log's."""
    return [path for name in ("checkpoint", "log") for path in (directory / name).rglob("*") if path.is_file()]
