"""The same code where Spark is not a local session: executors in processes of their own, and Spark Connect."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import headstream as hs
from headstream.testing import KafkaBroker
from tests.integration.kafka import spark_elsewhere
from tests.integration.kafka.test_spark_over_kafka import send


@pytest.mark.timeout(1200)
@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["local-cluster", "connect"])
def test_a_job_runs_the_same_when_spark_is_elsewhere(kafka_broker: KafkaBroker, tmp_path: Path, kind: str) -> None:
    topic = f"elsewhere/{kind}"
    for name in (topic, f"{topic}-copy"):
        kafka_broker.create_topic(name.replace("/", "."))
    headers = [hs.Headers({"attempt": hs.uint8(number), "source": "web"}) for number in range(3)]
    send(kafka_broker, topic.replace("/", "."), [hs.Message(payload=b"p", headers=each) for each in headers])
    url = (tmp_path / "log").as_uri()
    with hs.connect(url) as log:
        for name in (topic, f"{topic}-batch", f"{topic}-stream"):
            log.create_topic(name)
        with log.producer(topic) as producer:
            for each in headers:
                producer.send(b"p", headers=each)
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    if kind == "local-cluster":
        environment |= {"SPARK_HOME": str(Path(pyspark.__file__).parent), "SPARK_SCALA_VERSION": "2.13"}
    command = [sys.executable, str(spark_elsewhere.__file__), kind, url, kafka_broker.url, topic, str(tmp_path / "checkpoint")]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found = json.loads(ran.stdout.splitlines()[-1])
    assert found == {
        "session": "pyspark.sql.connect.session" if kind == "connect" else "pyspark.sql.session",
        "log": [0, 1, 2],
        "kafka": [0, 1, 2],
        "decoded": [0, 1, 2],
        "copied": 3,
        "error": f"(topic elsewhere.{kind}, partition 0, offset 0)",
        "written": {"batch": [0, 1, 2], "stream": [0, 1, 2]},
    }
