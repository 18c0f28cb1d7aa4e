"""The page of metrics: every family of a server, pipeline, mirror, client and Spark query, from the code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from headstream.broker.deliveries.delivery_views import GroupAges
from headstream.core.model.identifiers import TopicName
from headstream.core.model.transitions import TransitionKind
from headstream.core.wire.commands.system import Stats
from headstream.interceptors import Metrics
from headstream.log.opening import close_log, open_memory
from headstream.mirror.metrics import describe_mirror
from headstream.mirror.mirror import MirrorStats
from headstream.replicate.run.metrics import describe_pipeline
from headstream.server.http.metrics import describe_deliveries, describe_server
from headstream.server.http.pages import describe_removals
from headstream.server.resources.memory_budget import MemoryBudget
from headstream.spark.lag import LagListener

__all__ = ["families_of_pipeline", "families_of_server", "make_page", "name_of"]

_HEAD: Final = """# Metrics

For operators: every metric with its type and labels. The page is generated from the code. [Monitoring](monitoring.md) describes
how to collect metrics, the dashboard and the alerts.

Names begin with `headstream_` and contain the unit, except the names of eight server metrics that Iggy's tools use. A metric
has at most 1,000 series for topics, tables, groups or partitions. The other values are combined in the series `others`: the
maximum for lags in seconds and for failures, otherwise the sum.
"""
_WAITING: Final = ("parked", "delayed", "dead", "waiting_bytes", "oldest_wait_seconds", "waiting_for_loads", "open_transactions")


def families_of_server() -> list[Metric]:
    """Return the families of a server's `/metrics`."""
    stats = Stats(*[0] * 18, *[""] * 4)  # type: ignore[arg-type]
    ages = [GroupAges(TopicName("shop", "orders"), "billing", True, 1, 1)]
    counts = dict.fromkeys(TransitionKind, 0)
    log = open_memory()
    try:
        return [
            *describe_server([], stats, 1, [("shop", "orders", "billing", 1)], (0, 0), MemoryBudget(1 << 20)),
            *describe_deliveries(counts, {"poisoned": 1}, ages, 2, lost_rows=0, names_groups=True),
            *describe_removals(log, 2),
        ]
    finally:
        close_log(log)


def families_of_pipeline() -> list[Metric]:
    """Return the families of a Replicate pipeline's file of metrics."""
    status: dict[str, Any] = dict.fromkeys(_WAITING, 0) | {
        "run": None,
        "oldest_transaction": None,
        "failing_tables": [],
        "catalog": {"registered": 1, "waiting": 0},
        "iceberg": {"tables": [], "waiting": 0},
        "state": "ended",
    }
    return list(describe_pipeline(status))


def name_of(family: Metric) -> str:
    """Return the name of a family as it is exposed: a counter ends with `_total`."""
    return f"{family.name}_total" if family.type == "counter" else family.name


def make_page() -> str:
    """Return the page, as Markdown."""
    parts = {
        "A server": families_of_server(),
        "A Replicate pipeline": families_of_pipeline(),
        "A mirror": list(describe_mirror(MirrorStats())),
        "A client": list(Metrics(CollectorRegistry()).collect()),
        "Spark": list(LagListener().collect()),
    }
    return "\n".join([_HEAD, *(line for title, families in parts.items() for line in _section(title, families))])


def _section(title: str, families: Iterable[Metric]) -> list[str]:
    rows = [f"| `{name_of(each)}` | {each.type} | {_labels_of(each)} | {each.documentation} |" for each in families]
    return [f"## {title}", "", "| metric | type | labels | |", "|---|---|---|---|", *rows, ""]


def _labels_of(family: Metric) -> str:
    """Return the names of a family's labels. A family that prometheus_client collected has them in its samples alone."""
    names = getattr(family, "_labelnames", None) or ()
    return ", ".join(f"`{name}`" for name in names)
