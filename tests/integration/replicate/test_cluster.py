"""A pipeline on a cluster: which engine merges, and a schema store that executors do not see."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from headstream.testing import digest_rows
from tests.integration.replicate import replicate_cluster
from tests.integration.replicate.test_cli import fill

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.mark.nightly
def test_pipeline_merges_by_spark_and_refuses_a_zone_that_executors_do_not_see_when_they_are_other_processes(
    tmp_path: Path,
) -> None:
    from deltalake import DeltaTable

    url = (tmp_path / "log").as_uri()
    source = fill(url)
    home = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13", "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, str(replicate_cluster.__file__), url, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **home}, cwd=tmp_path, timeout=800)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found["seen"]["parked"] == 0
    rows = DeltaTable(str(tmp_path / "seen" / "tables" / "SHOP" / "customers")).to_pyarrow_table().to_pylist()
    (keys,) = [metadata.key_columns for metadata in source.tables() if metadata.lineage.table == "customers"]
    assert digest_rows(rows, keys) == source.digest("SHOP", "customers")
    why = "Spark's executors are separate processes (master local-cluster[2,1,1024])"
    assert found["lines"].count(f'tables with engine = "auto" are merged by spark: {why}') == 2, "each pipeline says so once"
    assert "cannot access the driver's schema store: found no schema store (/proc/self/cwd/zone on " in found["unseen"]
