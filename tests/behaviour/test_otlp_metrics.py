"""Metrics over OTLP: of a server, a mirror, a pipeline's status and a client, as a collector receives them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

import headstream as hs
from headstream.errors import InvalidOptionError
from headstream.interceptors import Metrics
from headstream.metrics.families import MOST_SERIES, limit_series, write_openmetrics
from headstream.metrics.output import MetricsOutput
from headstream.mirror.metrics import describe_mirror
from headstream.mirror.mirror import MirrorStats
from headstream.replicate.run.metrics import describe_pipeline
from headstream.replicate.run.status import note_status, read_status
from headstream.testing import SourceDatabase
from tests.support.otlp_collector import OtlpCollector, labels_of
from tests.support.replicate.pipeline_work import Work, plain
from tests.support.server.server_process import ServerProcess


def series_of(text: str) -> set[str]:
    """The names of the metrics in OpenMetrics text."""
    return set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))


def test_a_server_sends_the_metrics_of_its_page(tmp_path: Path) -> None:
    with OtlpCollector() as collector:
        environ = collector.variables | {"HEADSTREAM_METRICS_OTLP": "true"}
        with ServerProcess(tmp_path / "log", environ=environ) as server:
            with hs.connect(f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}") as log:
                log.create_topic("shop/orders")
                for _ in range(7):
                    log.send("shop/orders", b"two teapots")
            with urllib.request.urlopen(f"http://127.0.0.1:{server.http[1]}/metrics") as response:
                page = response.read().decode()
            collector.wait(len(collector.requests) + 2)
            collector.wait_for("messages", 7)
        found = collector.newest()
    assert collector.resource()["service.name"] == "headstream-server"
    with_values = {name for name in series_of(page) if re.search(rf"^{name}(_total|_bucket)?[{{ ]", page, re.MULTILINE)}
    assert with_values <= set(found)
    assert {"headstream_requests", "headstream_request_seconds", "headstream_received_bytes", "topics"} <= with_values
    requests = found["headstream_requests"].sum
    assert requests.is_monotonic
    assert requests.aggregation_temporality == 2  # cumulative
    sent = {(each["transport"], each["command"], each["status"]): each for each in map(labels_of, requests.data_points)}
    assert ("tcp", "user.login", "ok") in sent
    assert (found["headstream_request_seconds"].unit, found["headstream_received_bytes"].unit) == ("s", "By")
    for point in found["headstream_request_seconds"].histogram.data_points:
        assert len(point.bucket_counts) == len(point.explicit_bounds) + 1
        assert sum(point.bucket_counts) == point.count
        assert 0 <= point.sum < 60 * max(point.count, 1)


def test_a_stopped_server_sends_its_last_metrics(tmp_path: Path) -> None:
    with OtlpCollector() as collector:
        environ = collector.variables | {"HEADSTREAM_METRICS_OTLP": "true", "OTEL_METRIC_EXPORT_INTERVAL": "3600000"}
        with ServerProcess(tmp_path / "log", environ=environ) as server:
            with hs.connect(f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}") as log:
                log.create_topic("shop/orders")
            assert collector.requests == []
            server.stop()
        assert collector.newest()["topics"].gauge.data_points[0].as_double == 1


def test_a_server_goes_on_without_a_collector(tmp_path: Path) -> None:
    with OtlpCollector() as collector:
        collector.status = 400
        environ = collector.variables | {"HEADSTREAM_METRICS_OTLP": "true"}
        with ServerProcess(tmp_path / "log", environ=environ) as server:
            with hs.connect(f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}") as log:
                log.create_topic("shop/orders")
                log.send("shop/orders", b"two teapots")
            collector.status = 200
            collector.wait_for("messages", 1)


def test_metrics_over_otlp_need_http(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "headstream.cli",
        "server",
        "--data",
        str(tmp_path / "log"),
        "--tcp",
        "127.0.0.1:0",
        "--no-http",
    ]
    done = subprocess.run(
        command, env=os.environ | {"HEADSTREAM_METRICS_OTLP": "true"}, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert "headstream.metrics_otlp" in done.stderr


def test_a_mirror_sends_its_metrics(tmp_path: Path) -> None:
    one, other = (tmp_path / "one").as_uri(), (tmp_path / "other").as_uri()
    with hs.connect(one) as log:
        log.create_topic("shop/orders")
        for _ in range(3):
            log.send("shop/orders", b"two teapots")
    with OtlpCollector() as collector:
        variables = os.environ | collector.variables | {"OTEL_SERVICE_NAME": "nightly-copy"}
        command = [sys.executable, "-m", "headstream.cli", "mirror", one, other, "--once", "--metrics-otlp"]
        subprocess.run(command, env=variables, check=True, capture_output=True, timeout=120)
        assert collector.newest()["headstream_mirror_copied_messages"].sum.data_points[0].as_double == 3
        assert collector.resource()["service.name"] == "nightly-copy"


def test_a_pipeline_sends_the_metrics_of_its_status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = Work(tmp_path / "pipeline")
    work.process(work.raw([message.value for message in plain(SourceDatabase(36, rows=3, transactions=3))]), 0)
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us)
    families = list(describe_pipeline(read_status(work.ledger, work.now_us)))
    with OtlpCollector() as collector:
        for name, value in collector.variables.items():
            monkeypatch.setenv(name, value)
        output = MetricsOutput("headstream-replicate", tmp_path / "cdc.prom", over_otlp=True)
        assert output.is_wanted
        output.write(families)
        output.close()
        found = collector.newest()
    work.close()
    assert (tmp_path / "cdc.prom").read_text() == write_openmetrics(families)
    changes = found["headstream_replicate_changes"].sum.data_points
    assert [point.as_double for point in changes] == [work.summary.changes]
    tables = {labels_of(point)["table"] for point in found["headstream_replicate_rows"].sum.data_points}
    assert "SHOP.customers" in tables


def client_metrics(registry: CollectorRegistry) -> dict[tuple[str, str], float]:
    return {
        (sample.name, sample.labels["topic"]): sample.value
        for family in registry.collect()
        for sample in family.samples
        if "le" not in sample.labels
    }


def test_a_client_counts_what_it_sends_receives_and_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = CollectorRegistry()
    with OtlpCollector() as collector:
        for name, value in collector.variables.items():
            monkeypatch.setenv(name, value)
        metrics = Metrics(registry, otlp=True)
        with hs.connect("memory://", interceptors=[metrics]) as log:
            log.create_topic("shop/orders", partitions=1)
            with log.producer("shop/orders") as producer:
                for _ in range(5):
                    producer.send(b"two teapots")
            with log.consumer("shop/orders", group="billing", timeout_ms=0) as consumer:
                assert len(list(consumer)) == 5
        found = client_metrics(registry)
        metrics.close()
        sent = collector.newest()["headstream_client_sent_messages"].sum.data_points
    assert found["headstream_client_sent_messages_total", "shop/orders"] == 5
    assert found["headstream_client_sent_bytes_total", "shop/orders"] == 55
    assert found["headstream_client_received_messages_total", "shop/orders"] == 5
    assert found["headstream_client_failed_messages_total", "shop/orders"] == 0
    assert found["headstream_client_commits_total", "shop/orders"] >= 1
    assert found["headstream_client_delay_seconds_count", "shop/orders"] == 5
    assert 0 <= found["headstream_client_delay_seconds_sum", "shop/orders"] < 60
    assert [point.as_double for point in sent] == [5]
    assert client_metrics(registry) == {}


def test_topics_beyond_the_limit_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    for number in range(MOST_SERIES + 5):
        metrics.on_commit(f"shop/t{number}", {})
    commits = {topic: value for (name, topic), value in client_metrics(registry).items() if "commits" in name}
    assert len(commits) == MOST_SERIES + 1
    assert commits["others"] == 5


def test_tables_and_topics_beyond_the_limit_are_summed_up(tmp_path: Path) -> None:
    work = Work(tmp_path)
    status: dict[str, Any] = read_status(work.ledger, work.now_us)
    work.close()
    names = [f"SHOP.t{number:05}" for number in range(MOST_SERIES + 10)]
    status["run"] = {
        "tables": {name: {"inserted": 1, "updated": 2, "deleted": 3} for name in names},
        "lag_seconds": {name: number for number, name in enumerate(names)},
    }
    samples = {
        (sample.name, *sample.labels.values()): sample.value for family in describe_pipeline(status) for sample in family.samples
    }
    assert samples["headstream_replicate_rows_total", "others", "updated"] == 20
    assert ("headstream_replicate_rows_total", names[-1], "updated") not in samples
    assert samples["headstream_replicate_lag_seconds", "others"] == 9  # the longest of those that are not named
    assert samples["headstream_replicate_lag_seconds", names[-1]] == MOST_SERIES + 9
    lag = {f"shop/t{number:05}": number for number in range(MOST_SERIES + 10)}
    mirrored = [sample for family in describe_mirror(MirrorStats(lag=lag)) for sample in family.samples if sample.labels]
    assert len(mirrored) == MOST_SERIES + 1
    assert {sample.labels["topic"]: sample.value for sample in mirrored}["others"] == sum(range(10))


def test_limit_series_keeps_all_series_within_the_limit() -> None:
    series = [((str(number),), 1.0) for number in range(MOST_SERIES)]
    assert limit_series(series, ("others",)) == series


@pytest.mark.parametrize(
    ("name", "value"),
    [("OTEL_METRIC_EXPORT_INTERVAL", "often"), ("OTEL_METRIC_EXPORT_INTERVAL", "0"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "xml")],
)
def test_invalid_variables_are_refused(name: str, value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidOptionError, match=name):
        MetricsOutput("headstream-mirror", None, over_otlp=True)
