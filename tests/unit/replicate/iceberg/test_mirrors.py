"""Unit tests of headstream.replicate.iceberg.mirrors: real Delta tables, a real catalog in SQLite, a thread."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headstream.replicate.iceberg import mirrors as mirrors_module
from headstream.replicate.iceberg.access import open_catalog
from headstream.replicate.iceberg.mirrors import IcebergMirrors
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.testing import SourceDatabase
from tests.support.replicate.iceberg_tables import delta_rows, iceberg_rows
from tests.support.replicate.pipeline_work import SECOND_US, Work, plain

KEPT_US = 7 * 86_400_000_000
ORDERS = ("SHOP", "orders")


def settings(directory: Path, **options: Any) -> IcebergSettings:
    return IcebergSettings(catalog={"type": "sql", "uri": f"sqlite:///{directory / 'catalog.db'}"}, **options)


def now_us() -> int:
    return time.time_ns() // 1000


def place_table(directory: Path, name: tuple[str, str]) -> Path:
    return directory / name[0] / name[1]


@pytest.fixture
def open_mirrors(tmp_path: Path) -> Iterator[Callable[..., IcebergMirrors]]:
    opened = []

    def open_them(**options: Any) -> IcebergMirrors:
        chosen = settings(tmp_path, **options)
        clock = itertools.count(SECOND_US, SECOND_US).__next__
        opened.append(IcebergMirrors(chosen, tmp_path, KEPT_US, partial(place_table, tmp_path), clock, first_pause_s=0.01))
        return opened[-1]

    yield open_them
    for mirrors in opened:
        mirrors.close()


def write(directory: Path, name: tuple[str, str], rows: dict[str, Any]) -> None:
    (directory / name[0]).mkdir(exist_ok=True)
    write_deltalake(directory / name[0] / name[1], pa.table(rows), mode="append")


def test_offered_tables_are_brought_up_to_date_and_others_are_not(
    tmp_path: Path, open_mirrors: Callable[..., IcebergMirrors]
) -> None:
    mirrors = open_mirrors(namespace="lake.{schema}", table="{table}_v", tables=("SHOP.*",))
    for name in (ORDERS, ("HR", "people")):
        write(tmp_path, name, {"id": [1, 2]})
    mirrors.offer([ORDERS, ("HR", "people")])
    mirrors.finish(every_table=True)
    (found,) = mirrors.status()["tables"]
    assert found == {
        "table": "SHOP.orders",
        "name": "lake.SHOP.orders_v",
        "delta_version": 0,
        "lag_seconds": 0.0,
        "refused": False,
        "reason": None,
    }
    table = open_catalog(settings(tmp_path), tmp_path).load_table(("lake", "SHOP", "orders_v"))
    assert iceberg_rows(table) == delta_rows(tmp_path / "SHOP" / "orders")


def test_a_catalog_that_fails_is_tried_again_and_its_lag_is_told(
    tmp_path: Path,
    open_mirrors: Callable[..., IcebergMirrors],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    is_up, failed = threading.Event(), threading.Event()

    def open_it(*arguments: Any) -> Any:
        if not is_up.is_set():
            failed.set()
            raise ConnectionError("no answer")
        return open_catalog(*arguments)

    monkeypatch.setattr(mirrors_module, "open_catalog", open_it)
    write(tmp_path, ORDERS, {"id": [1, 2]})
    mirrors = open_mirrors()
    with caplog.at_level(logging.WARNING, "headstream.replicate"):
        mirrors.offer([ORDERS])
        assert failed.wait(10)
        assert not mirrors.may_vacuum(ORDERS, wait=True), "vacuum would remove what the old snapshot needs"
    (found,) = mirrors.status()["tables"]
    assert found["reason"] == "ConnectionError: no answer"
    assert found["lag_seconds"] > 0
    assert mirrors.status()["waiting"] == 1
    assert len(caplog.records) == 1, "the same reason is told once"
    is_up.set()
    with mirrors._changed:
        assert mirrors._changed.wait_for(lambda: mirrors._states[ORDERS].waiting_us is None, 10)
    assert mirrors.may_vacuum(ORDERS, wait=True)
    assert mirrors.status()["waiting"] == 0


def test_a_refused_table_stops_neither_others_nor_vacuum(tmp_path: Path, open_mirrors: Callable[..., IcebergMirrors]) -> None:
    tags = ("SHOP", "a_tags")
    write(tmp_path, tags, {"id": [1], "tags": [["x"]]})
    write(tmp_path, ORDERS, {"id": [1, 2]})
    mirrors = open_mirrors()
    mirrors.offer([tags, ORDERS])
    assert mirrors.may_vacuum(ORDERS, wait=True)
    assert mirrors.may_vacuum(tags, wait=True)
    mirrors.finish(every_table=True)
    refused, orders = mirrors.status()["tables"]
    assert refused["refused"]
    assert "column 'tags' has the type array" in refused["reason"]
    assert orders["delta_version"] == 0


@pytest.mark.parametrize("scd_type", [1, 2])
def test_iceberg_tables_of_a_pipeline_equal_its_delta_tables_after_each_micro_batch(tmp_path: Path, scd_type: int) -> None:
    rules = TableRules(defaults=TableSettings(scd_type=scd_type, merge_strategy="deletion-vectors"))  # type: ignore[arg-type]
    work = Work(tmp_path, rules=rules)
    place = partial(place_table, work.tables_directory)
    messages = [message.value for message in plain(SourceDatabase(41, rows=20, transactions=40))]
    compared = set()
    for begin in range(0, len(messages), 40):
        work.send(*messages[begin : begin + 40])
        mirrors = IcebergMirrors(settings(tmp_path), tmp_path, KEPT_US, place, now_us)
        touched = work.parts.tables.take_touched()
        mirrors.offer(touched)
        mirrors.finish(every_table=True)
        assert [found["reason"] for found in mirrors.status()["tables"]] == [None] * len(touched)
        catalog = open_catalog(settings(tmp_path), tmp_path)
        for name in touched:
            table = catalog.load_table(name)
            assert iceberg_rows(table) == delta_rows(place(name))
            compared.add((name, DeltaTable(place(name)).version()))
        catalog.close()
    assert len(compared) > 5
    assert not work.parts.tables.take_touched()
    work.close()
