"""A server with an audit of deliveries, and its metrics of them: over HTTP, after real consumers."""

from __future__ import annotations

import json
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import headstream as hs
from headstream.errors import InvalidOptionError
from headstream.server.config.config import load_config
from tests.support.server.server_process import ServerProcess

PATIENCE_S = 60.0
AT_ONCE = hs.Retry(2, "0s", "0s", order="skip")
PAUSING = hs.Retry(9, "0s", "0s", order="skip", pause="1h", pause_attempts=2)
LABELS = '{group="careful",stream="shop",topic="orders"}'


def url_of(server: ServerProcess) -> str:
    return f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}"


def read_metrics(server: ServerProcess) -> tuple[str, dict[tuple[str, ...], float]]:
    with urllib.request.urlopen(f"http://127.0.0.1:{server.http[1]}/metrics", timeout=PATIENCE_S) as response:
        text: str = response.read().decode()
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)  # type: ignore[no-untyped-call]
        for sample in family.samples
    }
    return text, samples


def test_a_server_audits_and_measures_what_its_consumers_say(tmp_path: Path) -> None:
    environ = {"HEADSTREAM_METRICS_OF_GROUPS": "true", "HEADSTREAM_DELIVERY_AUDIT": "ops/audit"}
    with ServerProcess(tmp_path / "log", environ=environ) as server, hs.connect(url_of(server)) as log:
        log.create_topic("shop/orders")
        for number in range(5):
            log.send("shop/orders", b"%d" % number)
        with log.consumer(
            "shop/orders", group="g", mode="shared", on_error=AT_ONCE, dead_letter="shop/dead", timeout_ms=0
        ) as worker:
            for message in worker:
                if message.offset == 3:
                    worker.retry(message, reason="no")
        with log.consumer("shop/orders", group="careful", on_error=PAUSING, dead_letter="shop/dead", timeout_ms=0) as consumer:
            for message in consumer:
                consumer.retry(message)
        with log.consumer("ops/audit", group="auditors", timeout_ms=PATIENCE_S * 1000) as auditor:
            rows = []
            for message in auditor:
                rows.append(json.loads(message.payload or b""))
                assert message.headers["transition"] == rows[-1]["transition"]
                if rows[-1]["transition"] == "paused":
                    break
        of_g = [(row["transition"], row["from_offset"], row["failures"]) for row in rows if row["group"] == "g"]
        assert ("retried", 3, 1) in of_g
        assert ("poisoned", 3, 2) in of_g
        assert {row["user"] for row in rows} == {"iggy"}
        assert all(row["worker"] for row in rows if row["transition"] != "paused")
        acked = [(row["from_offset"], row["until_offset"]) for row in rows if (row["group"], row["transition"]) == ("g", "acked")]
        assert sorted(offset for begin, until in acked for offset in range(begin, until)) == [0, 1, 2, 4]
        text, samples = read_metrics(server)
    found = {kind: samples["headstream_delivery_transitions_total", kind] for kind in ("retried", "poisoned", "rejected")}
    assert found == {"retried": 3, "poisoned": 1, "rejected": 0}
    assert samples["headstream_delivery_transitions_total", "acked"] >= 4
    assert samples["headstream_group_pauses_total",] == 1
    assert samples["headstream_paused_groups",] == 1
    assert samples["headstream_delivery_audit_lost_total",] == 0
    assert 0 < samples["headstream_oldest_poisoned_seconds",] < PATIENCE_S
    assert samples["headstream_oldest_leased_seconds",] == 0
    assert f"headstream_group_paused{LABELS} 1.0" in text
    with ServerProcess(tmp_path / "log") as server:  # nobody has asked for these groups in this process
        _, again = read_metrics(server)
    assert again["headstream_oldest_poisoned_seconds",] > samples["headstream_oldest_poisoned_seconds",]
    assert again["headstream_paused_groups",] == 1


def test_a_name_that_is_no_topic_is_refused() -> None:
    with pytest.raises(InvalidOptionError, match=r"headstream\.delivery_audit: 'audit' is not a topic"):
        load_config(None, {"HEADSTREAM_DELIVERY_AUDIT": "audit"})
