"""The metrics that the pages name are those of the code, and all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from headstream.broker.deliveries.delivery_views import GroupAges
from headstream.core.model.identifiers import TopicName
from headstream.core.model.transitions import TransitionKind
from headstream.core.wire.commands.system import Stats
from headstream.interceptors import Metrics
from headstream.log.opening import close_log, open_memory
from headstream.metrics.families import write_openmetrics
from headstream.mirror.metrics import describe_mirror
from headstream.mirror.mirror import MirrorStats
from headstream.replicate.run.metrics import describe_pipeline
from headstream.server.http.delivery_metrics import describe_deliveries
from headstream.server.http.metrics import describe_server
from headstream.server.http.pages import describe_removals
from headstream.server.resources.memory_budget import MemoryBudget
from headstream.spark.lag import LagListener

DOCS = Path(__file__).parents[2] / "docs"
WAITING = ("parked", "delayed", "dead", "waiting_bytes", "oldest_wait_seconds", "waiting_for_loads", "open_transactions")
OF_IGGY = {"http_requests", "streams", "topics", "partitions", "segments", "messages", "users", "clients"}


def of_server() -> list[Metric]:
    stats = Stats(*[0] * 18, *[""] * 4)  # type: ignore[arg-type]
    ages = [GroupAges(TopicName("shop", "orders"), "billing", True, 1, 1)]
    counts = dict.fromkeys(TransitionKind, 0)
    log = open_memory()
    try:
        return [
            *describe_server([], stats, 1, [("shop", "orders", "billing", 1)], (0, 0), MemoryBudget(1 << 20)),
            *describe_deliveries(counts, {"poisoned": 1}, ages, 2, lost_rows=0, tells_groups=True),
            *describe_removals(log, 2),
        ]
    finally:
        close_log(log)


def of_pipeline() -> list[Metric]:
    status: dict[str, Any] = dict.fromkeys(WAITING, 0) | {
        "run": None,
        "oldest_transaction": None,
        "failing_tables": [],
        "catalog": {"registered": 1, "waiting": 0},
        "iceberg": {"tables": [], "waiting": 0},
        "state": "ended",
    }
    return list(describe_pipeline(status))


def names_of(families: Iterable[Metric]) -> set[str]:
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in families}


def named_in(page: str, prefix: str) -> set[str]:
    return set(re.findall(rf"`({prefix}\w+)(?:\{{[^`]*)?`", (DOCS / page).read_text("utf-8")))


@pytest.mark.parametrize(
    ("families", "page", "prefix"),
    [
        (of_pipeline(), "monitoring.md", "headstream_replicate_"),
        (list(describe_mirror(MirrorStats())), "monitoring.md", "headstream_mirror_"),
        (Metrics(CollectorRegistry()).collect(), "monitoring.md", "headstream_client_"),
        (LagListener().collect(), "monitoring.md", "headstream_(?:source|sink)_"),
    ],
    ids=["pipeline", "mirror", "client", "spark"],
)
def test_pages_name_all_metrics_and_no_others(families: list[Metric], page: str, prefix: str) -> None:
    assert named_in(page, prefix) == names_of(families)


def test_the_page_of_http_names_all_metrics_of_a_server_and_no_others() -> None:
    found = names_of(of_server())
    assert {name for name in found if not name.startswith("headstream_")} == {
        f"{name}_total" if name == "http_requests" else name for name in OF_IGGY
    }
    others = {name for name in found if name.startswith("headstream_")}
    assert named_in("server-http.md", "headstream_") == others


def test_names_have_units_and_texts_end_with_a_period() -> None:
    families = [*of_server(), *of_pipeline(), *describe_mirror(MirrorStats()), *LagListener().collect()]
    for family in families:
        assert re.fullmatch(r"[a-z_]+", family.name)
        assert family.documentation.endswith("."), family.name
        is_time = re.search(r"\b(age|how long|time)\b", family.documentation, re.IGNORECASE)
        assert not is_time or family.name.endswith(("_seconds", "_percent")), family.name
        assert "bytes" not in family.documentation.lower().split()[:1] or "_bytes" in family.name, family.name
    assert write_openmetrics(families).endswith("# EOF\n")
