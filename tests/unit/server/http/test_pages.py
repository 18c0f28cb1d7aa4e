"""Unit tests of headstream.server.http.pages."""

from __future__ import annotations

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from headstream.server.config.http_settings import HttpSettings
from tests.support.server.http_servers import Http, make_topic, serving
from tests.unit.server.http.test_server import MESSAGES, SEND


def test_root_ping_and_health_need_no_token(http: Http) -> None:
    for path, body in (("/", b"Iggy API"), ("/ping", b"pong"), ("/health", b'{"status":"ready"}')):
        answer = http.call("GET", path, token=None)
        assert (answer.status, answer.body, answer.headers["Server"]) == (200, body, "headstream")


def test_metrics_count_what_was_asked(http: Http) -> None:
    http.call("POST", MESSAGES, SEND)
    http.call("GET", "/streams", token=None)
    answer = http.call("GET", "/metrics", token=None)
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.body.endswith(b"# EOF\n")
    samples = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.body.decode())  # type: ignore[no-untyped-call]
        for sample in family.samples
    }
    for name in ("streams", "topics", "partitions", "segments", "users"):
        assert samples[name,] == 1, name
    assert samples["messages",] >= 1
    assert samples["clients",] == 0
    assert samples["http_requests_total",] >= 4
    labels = ("command", "message.send"), ("status", "ok"), ("transport", "http")
    sent = samples["headstream_requests_total", *labels]
    assert sent >= 1
    assert samples["headstream_request_seconds_count", ("command", "message.send"), ("transport", "http")] >= sent
    assert samples["headstream_received_bytes_total", ("transport", "http")] > 0
    assert samples["headstream_sent_bytes_total", ("transport", "http")] > 0
    assert samples["headstream_connections", ("transport", "http")] >= 1


def test_metrics_tell_how_far_groups_are_behind_where_they_may() -> None:
    for told in (False, True):
        with serving(HttpSettings(metrics_of_groups=told)) as http:
            make_topic(http)
            for _ in range(3):
                assert http.call("POST", MESSAGES, SEND).status == 201
            committed = {"consumer": "group:billing", "offsets": {"1": 1}}
            assert http.call("PUT", "/streams/s/topics/t/consumer-offsets/committed", committed).status == 204
            text = http.call("GET", "/metrics", token=None).body.decode()
            assert ('headstream_group_lag{group="billing",stream="s",topic="t"} 2.0' in text) is told
