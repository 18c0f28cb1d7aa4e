"""Commits of Delta tables that Spark writes in S3: the store refuses one that is already there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.build_s3_log_store import build

from headstream.spark.sessions.s3_commits import LOG_STORE_JAR
from tests.integration.replicate import s3_commit_job

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def test_a_driver_that_is_overtaken_within_a_commit_replaces_none_and_one_whose_answer_is_lost_is_made_once(
    tmp_path: Path,
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-m", s3_commit_job.__name__]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=800)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["used"] == ["first\n", "java.nio.file.FileAlreadyExistsException"]
    assert found["own"] == ["late\n", ""], "Delta's own class has the condition now: ours is not needed"
    assert found["rows"] == [2, 3, 5]


def test_the_jar_is_what_its_source_compiles_to(tmp_path: Path) -> None:
    compiler = shutil.which("javac")
    version = (
        "" if compiler is None else subprocess.run([compiler, "-version"], capture_output=True, text=True, check=True).stdout
    )
    if not version.startswith("javac 17."):
        pytest.skip("needs javac 17: another one writes other bytes")
    build(tmp_path / "built.jar")
    assert (tmp_path / "built.jar").read_bytes() == LOG_STORE_JAR.read_bytes()
