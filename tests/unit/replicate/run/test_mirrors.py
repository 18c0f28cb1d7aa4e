"""Unit tests of headstream.replicate.run.mirrors: real Delta tables, a real catalog in SQLite, a thread."""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyiceberg
import pytest
from deltalake import DeltaTable, write_deltalake

from headstream.errors import EnvironmentSetupError
from headstream.replicate.iceberg import access
from headstream.replicate.iceberg import catalog as catalog_module
from headstream.replicate.iceberg.catalog import open_catalog
from headstream.replicate.run import mirrors as mirrors_module
from headstream.replicate.run.background_work import ATTEMPT_S
from headstream.replicate.run.mirrors import IcebergMirrors
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.iceberg_settings import IcebergSettings
from headstream.replicate.settings.table_settings import TableRules, TableSettings
from headstream.testing import SourceDatabase
from tests.support.replicate.iceberg_tables import delta_rows, iceberg_rows, sql_catalog
from tests.support.replicate.pipeline_work import SECOND_US, Work, plain
from tests.support.replicate.plain_engine import STRATEGY

ORDERS, TAGS = ("SHOP", "orders"), ("SHOP", "a_tags")


def open_them(directory: Path, **options: Any) -> IcebergMirrors:
    settings = IcebergSettings(catalog={"type": "sql", "uri": f"sqlite:///{directory / 'catalog.db'}"}, **options)
    tables, checkpoint = directory / "tables", directory / "checkpoint"
    config = ReplicateConfig(source=None, topics=("cdc",), iceberg=settings, tables=tables, checkpoint=checkpoint)
    return IcebergMirrors(config, itertools.count(SECOND_US, SECOND_US).__next__, first_pause_s=0.01)


@pytest.fixture
def open_mirrors(tmp_path: Path) -> Iterator[Callable[..., IcebergMirrors]]:
    opened: list[IcebergMirrors] = []

    def open_one(**options: Any) -> IcebergMirrors:
        opened.append(open_them(tmp_path, **options))
        return opened[-1]

    yield open_one
    for mirrors in opened:
        mirrors.close()


def write(directory: Path, name: tuple[str, str], rows: dict[str, Any]) -> None:
    place = directory / "tables" / name[0]
    place.mkdir(exist_ok=True, parents=True)
    write_deltalake(place / name[1], pa.table(rows), mode="append")


def test_mirrors_refuse_a_version_of_pyiceberg_that_was_not_tested(
    open_mirrors: Callable[..., IcebergMirrors], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyiceberg, "__version__", "0.13.0")
    with pytest.raises(EnvironmentSetupError, match=r"pyiceberg 0\.13\.0 is not a supported version"):
        open_mirrors()


def test_offered_tables_are_brought_up_to_date_and_others_are_not(
    tmp_path: Path, open_mirrors: Callable[..., IcebergMirrors]
) -> None:
    mirrors = open_mirrors(namespace="lake.{schema}", table="{table}_v", tables=("SHOP.*",))
    for name in (ORDERS, ("HR", "people")):
        write(tmp_path, name, {"id": [1, 2]})
    mirrors.offer([ORDERS, ("HR", "people")])
    mirrors.finish(every_table=True)
    (found,) = mirrors.status()["tables"]
    names = {"table": "SHOP.orders", "name": "lake.SHOP.orders_v"}
    assert found == {**names, "delta_version": 0, "lag_seconds": 0.0, "refused": False, "reason": None}
    table = sql_catalog(tmp_path).load_table(("lake", "SHOP", "orders_v"))
    assert iceberg_rows(table) == delta_rows(tmp_path / "tables" / "SHOP" / "orders")


def test_a_catalog_that_fails_is_tried_again_and_its_lag_is_told(
    tmp_path: Path, open_mirrors: Callable[..., IcebergMirrors], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    is_up = threading.Event()

    def open_it(*arguments: Any) -> Any:
        if not is_up.is_set():
            raise ConnectionError("no answer")
        return open_catalog(*arguments)

    monkeypatch.setattr(catalog_module, "open_catalog", open_it)
    write(tmp_path, ORDERS, {"id": [1, 2]})
    mirrors = open_mirrors()
    caplog.set_level(logging.WARNING, "headstream.replicate")
    mirrors.offer([ORDERS])
    assert not mirrors.may_vacuum(ORDERS, wait=True), "vacuum would remove what the old snapshot needs"
    (found,) = mirrors.status()["tables"]
    assert found["reason"] == "no answer"
    assert found["lag_seconds"] > 0
    assert mirrors.status()["waiting"] == 1
    is_up.set()
    changed = mirrors._work.changed
    with changed:
        assert changed.wait_for(lambda: not mirrors._work.waiting, 10)
    assert mirrors.may_vacuum(ORDERS, wait=True)
    assert mirrors.status()["waiting"] == 0
    assert [record.getMessage() for record in caplog.records] == ["an Iceberg table is not up to date; retrying: no answer"], (
        "the same reason is told once"
    )


def test_a_catalog_that_does_not_answer_is_waited_for_once(
    tmp_path: Path, open_mirrors: Callable[..., IcebergMirrors], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert access.ANSWER_S > ATTEMPT_S, "the end of a run would wait for the attempt of each table"
    answers = threading.Event()
    monkeypatch.setattr(catalog_module, "open_catalog", lambda *given: answers.wait() and open_catalog(*given))
    for name in (ORDERS, TAGS):
        write(tmp_path, name, {"id": [1]})
    mirrors = open_mirrors()
    monkeypatch.setattr(mirrors_module, "ATTEMPT_S", 0.01)
    assert not mirrors.may_vacuum(ORDERS, wait=True)
    monkeypatch.setattr(mirrors_module, "ATTEMPT_S", 3600)
    assert not mirrors.may_vacuum(TAGS, wait=True), "this one has not waited"
    answers.set()
    mirrors.finish(every_table=True)
    assert mirrors.may_vacuum(ORDERS, wait=True)
    assert mirrors.may_vacuum(TAGS, wait=True)


def test_a_refused_table_stops_neither_others_nor_vacuum(
    tmp_path: Path, open_mirrors: Callable[..., IcebergMirrors], caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, TAGS, {"id": [1], "tags": [["x"]]})
    write(tmp_path, ORDERS, {"id": [1, 2]})
    mirrors = open_mirrors()
    mirrors.offer([TAGS, ORDERS])
    assert mirrors.may_vacuum(ORDERS, wait=True)
    assert mirrors.may_vacuum(TAGS, wait=True)
    mirrors.finish(every_table=True)
    refused, orders = mirrors.status()["tables"]
    assert refused["refused"]
    assert "column 'tags' has the type array" in refused["reason"]
    assert "the Iceberg table of SHOP.a_tags was not updated: column 'tags' has the type array" in caplog.text
    assert orders["delta_version"] == 0


@pytest.mark.parametrize("scd_type", [1, 2])
def test_iceberg_tables_of_a_pipeline_equal_its_delta_tables_after_each_micro_batch(
    tmp_path: Path, scd_type: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STRATEGY, "deletion-vectors")
    rules = TableRules(defaults=TableSettings(scd_type=scd_type))  # type: ignore[arg-type]
    work = Work(tmp_path, rules=rules)
    messages = [message.value for message in plain(SourceDatabase(41, rows=10, transactions=18))]
    compared = set()
    for begin in range(0, len(messages), 25):
        work.send(*messages[begin : begin + 25])
        mirrors, touched = open_them(tmp_path), work.context.tables.take_touched()
        mirrors.offer(touched)
        mirrors.finish(every_table=True)
        with sql_catalog(tmp_path) as catalog:
            for name in touched:
                place, table = work.tables_directory / name[0] / name[1], catalog.load_table(name)
                assert iceberg_rows(table) == delta_rows(place)
                if scd_type == 2:
                    current = {file.file.partition[0] for file in table.scan(row_filter="_hs_current = true").plan_files()}
                    assert current == {True}, "queries of current rows read the files of older versions too"
                compared.add((name, DeltaTable(place).version()))
    assert len(compared) > 5
    assert list(tmp_path.rglob("_iceberg/deletes-*")), "no merge has written a deletion vector"
    assert not work.context.tables.take_touched()
    work.close()
