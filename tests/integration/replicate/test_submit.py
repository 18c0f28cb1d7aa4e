"""The pipeline in sessions that others make: by spark-submit on a cluster of processes, and one that lacks what it needs."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest
from deltalake import DeltaTable

from headstream.connect import connect
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.storage.delta_places import open_table
from headstream.replicate.storage.places import parse_place
from headstream.spark.sessions.jars import fetch
from tests.integration.replicate import foreign_sessions
from tests.support.replicate.replicate_messages import make_change, make_table
from tests.support.replicate.yarn_cluster import yarn_cluster

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[3]
KIT = make_table()


def fill(url: str) -> None:
    with connect(url) as log:
        log.create_topic("cdc/data")
        with log.producer("cdc/data") as producer:
            for value in (metadata_message(KIT), data_message(KIT, make_change(1)), data_message(KIT, make_change(2))):
                producer.send(value)


@contextmanager
def standalone_cluster(directory: Path, environment: dict[str, str]) -> Iterator[str]:
    """A master and a worker of Spark's own, each a process; yields the master's URL."""
    start = [str(Path(pyspark.__file__).parent / "bin" / "spark-class"), "org.apache.spark.deploy."]
    output = directory / "master.txt"
    with output.open("wb") as file, ExitStack() as stack:

        def run(kind: str, *given: str) -> None:
            command = [start[0], start[1] + kind, "--host", "127.0.0.1", "--webui-port", "0", *given]
            process = subprocess.Popen(command, cwd=directory, env=environment, stdout=file, stderr=file, start_new_session=True)
            stack.callback(process.wait)
            stack.callback(os.killpg, process.pid, signal.SIGKILL)

        run("master.Master", "--port", "0")
        for _ in range(600):
            found = re.search(r"Starting Spark master at (spark://\S+)", output.read_text(errors="replace"))
            if found is not None:
                break
            time.sleep(0.1)
        assert found is not None, output.read_text(errors="replace")
        run("worker.Worker", "--cores", "2", "--memory", "2g", "--work-dir", str(directory / "work"), found[1])
        yield found[1]


def make_environment() -> dict[str, str]:
    home = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13", "PYSPARK_PYTHON": sys.executable}
    return {**os.environ, **home, "SPARK_LOCAL_IP": "127.0.0.1"}


def submit(directory: Path, environment: dict[str, str], place: str, *told: str) -> subprocess.CompletedProcess[str]:
    url = (directory / "log").as_uri()
    given = ["--source", url, "--topics", "cdc/data", "--tables", f"{place}/tables", "--checkpoint", f"{place}/state"]
    told = ("--executor-memory", "1g", "--name", "nightly", "--conf", "spark.sql.shuffle.partitions=3", *told)
    job = ROOT / "examples/deploy/replicate_job.py"
    command = [str(Path(sys.executable).with_name("spark-submit")), *told, str(job), *given, "--once", "--output", "json"]
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=800)


def read_output(output: str, errors: str, master: str) -> None:
    log, summary_text = output.rsplit("\n{\n", 1)  # spark-submit puts the standard error of a program into its output
    summary = json.loads("{" + summary_text)
    assert (summary["changes"], summary["parked"], summary["failing"]) == (2, 0, {})
    assert f"merged by spark: Spark's executors are separate processes (master {master})" in log
    assert "Submitted application: nightly" in errors


@pytest.mark.nightly
def test_a_pipeline_runs_through_spark_submit_on_a_standalone_cluster_with_the_settings_given_there(tmp_path: Path) -> None:
    fill((tmp_path / "log").as_uri())
    environment = make_environment()
    with standalone_cluster(tmp_path, environment) as master:
        ran = submit(tmp_path, environment, str(tmp_path), "--master", master)
    assert ran.returncode == 0, ran.stderr[-3000:]
    read_output(ran.stdout, ran.stderr, master)
    rows = DeltaTable(str(tmp_path / "tables" / "shop" / "kit")).to_pyarrow_table().to_pylist()
    assert sorted(row["id"] for row in rows) == [1, 2]


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_a_pipeline_runs_through_spark_submit_on_yarn_and_its_hdfs(tmp_path: Path, mode: str) -> None:
    """With the driver here, and in a container without this user's folder of jars: they come with the job."""
    fill((tmp_path / "log").as_uri())
    jars = [f"local:{Path(pyspark.__file__).parent}/jars/*", ",".join(map(str, fetch()))]
    told = ["--master", "yarn", "--deploy-mode", mode, "--num-executors", "2", "--conf", f"spark.yarn.jars={jars[0]}"]
    told += ["--conf", "spark.yarn.maxAppAttempts=1"]
    with yarn_cluster(tmp_path) as (conf, uri):
        environment = {**make_environment(), "HADOOP_CONF_DIR": str(conf)}
        ran = submit(tmp_path, environment, f"{uri}/lake", *told, *(["--jars", jars[1]] if mode == "cluster" else []))
        outputs = sorted(tmp_path.glob("logs/*/*_000001/stdout"))
        assert ran.returncode == 0, "\n".join([ran.stderr[-3000:], *(path.read_text()[-2000:] for path in outputs)])
        if mode == "client":
            read_output(ran.stdout, ran.stderr, "yarn")
        else:
            (output,) = outputs
            read_output(output.read_text(), output.with_name("stderr").read_text(), "yarn")
        table = open_table(parse_place(f"{uri}/lake/tables/shop/kit"))
        assert table is not None
        rows = table.to_pyarrow_table().to_pylist()
        assert sorted(row["id"] for row in rows) == [1, 2]


def test_a_session_that_lacks_something_is_refused_by_name_before_the_run(tmp_path: Path) -> None:
    url = (tmp_path / "log").as_uri()
    fill(url)
    bare = tmp_path / "python-without-packages"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    bare.chmod(0o755)
    command = [sys.executable, str(foreign_sessions.__file__), url, str(tmp_path), str(bare)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=800)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    lacks = "this session lacks Delta's jars and spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    assert f"Spark merges the tables, but {lacks}spark.sql.catalog.spark_catalog=" in found["no delta, spark"]
    assert "headstream.spark.session()" in found["no delta, spark"]
    assert found["no delta, deltalake"] == 2, "deltalake needs no jars"
    assert any("cannot write tables with column names such as `order date`" in line for line in found["lines"])
    assert "Spark's Python workers" in found["no packages"]
    assert str(bare) in found["no packages"]
    assert "spark.pyspark.python" in found["no packages"]
