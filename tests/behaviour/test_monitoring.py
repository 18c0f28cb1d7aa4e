"""The dashboard and the alert rules of docs/monitoring.md, on the metrics of a real server and a real pipeline."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import tomllib
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from tools import make_dashboard

import headstream as hs
from headstream.core.wire.commands.system import Stats
from headstream.metrics.families import MOST_SERIES, write_openmetrics
from headstream.replicate.run.metrics import describe_pipeline
from headstream.replicate.run.status import note_status, read_status
from headstream.server.http.metrics import describe_server
from headstream.testing import SourceDatabase
from tests.support.replicate.pipeline_work import Work, plain
from tests.support.server.server_process import ServerProcess

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docs/monitoring/headstream-alerts.yml"
RULES_TEST = ROOT / "tests/samples/alerts-test.yml"
WORDS = {"by", "and", "or", "on", "absent", "delta", "histogram_quantile", "increase", "max", "rate", "sum", "time", "topk"}
LABELS = {"instance", "transport", "status", "le", "operation", "job", "table", "command", "transition"}
PATIENCE_S = 120.0


def queries() -> list[str]:
    dashboard = json.loads(make_dashboard.DASHBOARD.read_text("utf-8"))
    return [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]


def alerts() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES.read_text("utf-8"))["groups"] for rule in group["rules"]]


def metric_names(query: str) -> set[str]:
    without_selectors = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", query)
    return set(re.findall(r"[a-z_]{2,}", without_selectors)) - WORDS - LABELS - {"up"}


@contextmanager
def running_server(directory: Path) -> Iterator[ServerProcess]:
    with ServerProcess(directory / "log", environ={"HEADSTREAM_METRICS_OF_GROUPS": "true"}) as server:
        with hs.connect(f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}") as log:
            log.create_topic("shop/orders")
            log.seek_group("shop/orders", "billing", "first")
        yield server


def use(server: ServerProcess) -> None:
    """Send and poll a message, with a filter, and ask for a topic that is not there."""
    with hs.connect(f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}") as log:
        log.send("shop/orders", b"two teapots", headers={"tenant": "acme"})
        log.poll("shop/orders", where="tenant = 'acme'")
        with pytest.raises(hs.TopicNotFoundError):
            log.topic("shop/none")


def read(address: str) -> str:
    with urllib.request.urlopen(address, timeout=PATIENCE_S) as response:
        text: str = response.read().decode()
        return text


def series_names(text: str) -> set[str]:
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if line and not line.startswith("#")}


def pipeline_metrics(work: Work) -> str:
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us)
    return write_openmetrics(describe_pipeline(read_status(work.ledger, work.now_us)))


def test_dashboard_is_the_one_of_its_plots() -> None:
    assert make_dashboard.main(["--check"]) == 0
    plots = tomllib.loads(make_dashboard.PLOTS.read_text("utf-8"))
    assert all(plot["text"].endswith(".") for row in plots.values() for plot in row)


def test_queries_and_rules_name_metrics_that_exist(tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        use(server)
        found = series_names(read(f"http://127.0.0.1:{server.http[1]}/metrics"))
    work = Work(tmp_path / "pipeline")
    work.process(work.raw([message.value for message in plain(SourceDatabase(36, rows=3, transactions=3))]), 0)
    found |= series_names(pipeline_metrics(work)) | {"headstream_replicate_table_failures"}  # of tables that fail
    work.close()
    for query in [*queries(), *(rule["expr"] for rule in alerts())]:
        assert metric_names(query) <= found, query


def test_page_names_every_alert() -> None:
    page = (ROOT / "docs/monitoring.md").read_text("utf-8")
    names = [rule["alert"] for rule in alerts()]
    assert re.findall(r"^\| `(Headstream\w+)` \|", page, re.MULTILINE) == names
    assert len(set(names)) == len(names)
    assert all({"summary", "description"} == set(rule["annotations"]) for rule in alerts())
    assert all(name in RULES_TEST.read_text("utf-8") for name in names)


def test_groups_beyond_the_largest_are_summed_up() -> None:
    groups = [("shop", "orders", f"g{number:05}", number) for number in range(MOST_SERIES + 10)]
    text = write_openmetrics(describe_server([], Stats(*[0] * 18, *[""] * 4), 1, groups))  # type: ignore[arg-type]
    lags = dict(re.findall(r'^headstream_group_lag\{group="(\w+)".*\} (.*)$', text, re.MULTILINE))
    assert len(lags) == MOST_SERIES + 1
    assert float(lags["others"]) == sum(range(10))
    assert "g00009" not in lags
    assert "g00010" in lags


needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="Prometheus is not installed")


@needs_prometheus
def test_each_alert_fires_when_it_should_and_not_before(tmp_path: Path) -> None:
    file = tmp_path / "test.yml"
    file.write_text(RULES_TEST.read_text("utf-8").replace("[ALERTS]", json.dumps([str(RULES)])))
    done = subprocess.run(
        ["promtool", "test", "rules", str(file)], capture_output=True, text=True, check=False, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stdout + done.stderr


@needs_prometheus
def test_every_query_of_the_dashboard_returns_data(tmp_path: Path) -> None:
    work = Work(tmp_path / "pipeline")
    values = [message.value for message in plain(SourceDatabase(36, rows=3, transactions=30))]
    with running_server(tmp_path) as server, serving_text() as page, prometheus(tmp_path, server.http[1], page.port) as ask:
        left = {
            query.replace("$__rate_interval", "1m").replace('"$instance"', '".*"').replace('"$job"', '".*"')
            for query in queries()
        }
        until_s, number = time.monotonic() + PATIENCE_S, 0
        while left:
            assert time.monotonic() < until_s, left
            use(server)
            work.process(work.raw(values[number::10]), number)
            page.text = pipeline_metrics(work)
            number = number + 1 if number < 9 else 0
            time.sleep(1)
            left = {query for query in left if not ask(query)}
    work.close()


class Page:
    """A text that is served over HTTP."""

    text = "# EOF\n"
    port = 0


@contextmanager
def serving_text() -> Iterator[Page]:
    page = Page()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
            self.end_headers()
            self.wfile.write(page.text.encode())

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        page.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield page
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def prometheus(directory: Path, server_port: int, pipeline_port: int) -> Iterator[Any]:
    """Run Prometheus on two targets; yield a function from a query to its results."""
    jobs = [
        {"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}
        for name, port in (("headstream", server_port), ("replicate", pipeline_port))
    ]
    config = directory / "prometheus.yml"
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs, "rule_files": [str(RULES)]}))
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    command = [
        "prometheus",
        f"--config.file={config}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (directory / "prometheus.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)

    def ask(query: str) -> list[Any]:
        try:
            answer = json.loads(read(f"http://127.0.0.1:{port}/api/v1/query?{urllib.parse.urlencode({'query': query})}"))
        except OSError:  # it is starting
            assert process.poll() is None, (directory / "prometheus.log").read_text()
            return []
        assert answer["status"] == "success", answer
        result: list[Any] = answer["data"]["result"]
        return result

    try:
        yield ask
    finally:
        process.kill()
        process.wait()
