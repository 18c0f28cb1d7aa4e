"""Unit tests of headstream.mirror.metrics."""

from __future__ import annotations

from headstream.metrics.families import write_openmetrics
from headstream.mirror.metrics import describe_mirror
from headstream.mirror.mirror import MirrorStats


def test_metrics_are_open_metrics() -> None:
    text = write_openmetrics(describe_mirror(MirrorStats(copied=3, lag={"shop/orders": 2})))
    assert "headstream_mirror_copied_messages_total 3.0\n" in text
    assert 'headstream_mirror_lag_messages{topic="shop/orders"} 2.0\n' in text
    assert text.endswith("# EOF\n")
