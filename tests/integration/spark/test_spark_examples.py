"""The examples that need Spark run as programs of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

IN_A_SESSION = {"read.py", "write.py"}
"""Run by the tests of the source's and the sink's page, in the session that is there."""
EXAMPLES = sorted(path for path in (Path(__file__).parents[3] / "examples/spark").glob("*.py") if path.name not in IN_A_SESSION)


@pytest.mark.spark
@pytest.mark.nightly  # those in a session are in the first tier
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_with_spark_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
