from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from headstream.spark.lag import LagListener, PartitionLag, read_lags

IDENTITY = {"log": "3b1f", "shop/orders": "1/1"}


def progress(start: Any, end: Any, latest: Any, rows: int = 0, name: str | None = "billing") -> dict[str, Any]:
    sources = [
        {"description": "rate", "startOffset": 3, "endOffset": 5, "latestOffset": 9, "numInputRows": 2},
        {"description": "x", "startOffset": start, "endOffset": end, "latestOffset": latest, "numInputRows": rows},
    ]
    return {"id": "0001", "runId": "0002", "name": name, "sources": sources}


def event(report: dict[str, Any]) -> Any:
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(report)), runId="0002", id="0001", name=report["name"])


def ours(one: int, two: int) -> dict[str, Any]:
    return {"shop/orders": {"1": one, "2": two}, "identity": IDENTITY}


def test_read_lags_gives_each_partition_of_our_sources_and_of_kafkas() -> None:
    assert read_lags(progress(None, ours(5, 7), ours(15, 7))) == [
        PartitionLag("billing", "shop/orders", 1, 5, 15),
        PartitionLag("billing", "shop/orders", 2, 7, 7),
    ]
    kafka = progress(None, {"shop.orders": {"0": 5}}, {"shop.orders": {"0": 6, "1": 4}}, name=None)
    assert [(lag.query, lag.topic, lag.partition, lag.lag) for lag in read_lags(kafka)] == [("0001", "shop.orders", 0, 1)]


def test_a_lag_is_not_negative_when_the_end_was_looked_up_earlier() -> None:
    assert PartitionLag("q", "a/b", 1, 7, 5).lag == 0


def test_listener_calls_back_and_writes_metrics_until_a_query_ends() -> None:
    seen: list[list[PartitionLag]] = []
    listener = LagListener(lambda lags: seen.append(list(lags)))
    listener.onQueryStarted(event(progress(None, None, None)))
    assert listener.lags == []
    listener.onQueryProgress(event(progress(None, ours(5, 5), ours(15, 20), rows=10, name='b"q')))
    listener.onQueryProgress(event(progress(ours(5, 5), ours(15, 8), ours(15, 20), rows=9, name='b"q')))
    assert [lag.lag for lag in listener.lags] == [0, 12]
    assert [[lag.lag for lag in lags] for lags in seen] == [[10, 15], [0, 12]]
    lines = listener.metrics_text().splitlines()
    assert lines[1] == "# TYPE headstream_source_lag gauge"
    assert 'headstream_source_lag{partition="2",query="b\\"q",topic="shop/orders"} 12.0' in lines
    assert 'headstream_source_offset{partition="1",query="b\\"q",topic="shop/orders"} 15.0' in lines
    assert 'headstream_source_rows_total{query="billing"} 9.0' in lines
    assert 'headstream_source_offsets_total{query="billing"} 13.0' in lines
    assert lines[-1] == "# EOF"
    listener.onQueryTerminated(event(progress(None, None, None)))
    assert listener.lags == []
    assert not any("{" in line for line in listener.metrics_text().splitlines())


@pytest.mark.parametrize(
    ("description", "rows", "written"),
    [
        ("org.apache.spark.sql.execution.datasources.v2.python.PythonTable@1f", 7, 14),
        ("org.apache.spark.sql.execution.datasources.v2.python.PythonTable@1f", -1, 0),
        ("DeltaSink[/tables/orders]", 7, 0),
    ],
)
def test_rows_written_in_python_are_counted(description: str, rows: int, written: int) -> None:
    listener = LagListener()
    report = {**progress(None, ours(5, 5), ours(5, 5)), "sink": {"description": description, "numOutputRows": rows}}
    listener.onQueryProgress(event(report))
    listener.onQueryProgress(event(report))
    assert f'headstream_sink_rows_total{{query="billing"}} {float(written)}' in listener.metrics_text().splitlines()
