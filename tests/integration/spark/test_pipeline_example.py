"""The example of a declarative pipeline runs as its page says."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import headstream as hs

pytest.importorskip("yaml", reason="spark-pipelines needs pyyaml")

EXAMPLE = Path(__file__).parents[3] / "examples/pipeline"


@pytest.mark.spark
@pytest.mark.soak  # a server of Spark Connect starts for it
def test_the_pipeline_of_the_example_makes_its_table_from_a_log(tmp_path: Path) -> None:
    place = tmp_path / "pipeline"
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (place / "spark-pipeline.yml", *place.glob("transformations/*.py")):
        path.write_text(path.read_text().replace("/tmp/headstream-pipeline", str(tmp_path)))
    with hs.connect((tmp_path / "log").as_uri()) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            for attempt in range(3):
                producer.send(b"paid", headers={"attempt": hs.int32(attempt)})
    command = [str(Path(sys.executable).parent / "spark-pipelines"), "run"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    ran = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    files = list((place / "spark-warehouse/orders").glob("*.parquet"))
    assert files, sorted(place.rglob("*"))
    from pyarrow import parquet

    table = parquet.read_table(files)
    assert sorted(table["attempt"].to_pylist()) == [0, 1, 2]
