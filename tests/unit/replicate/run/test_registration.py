"""The registration of tables in a catalog: what is tried when, beside a run. The catalog itself: integration/replicate."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from headstream.errors import StorageError
from headstream.replicate.codec import metadata_message
from headstream.replicate.run.registration import CatalogEntry, Registration, find_catalog_names
from headstream.replicate.settings.catalog_names import CatalogName
from headstream.replicate.settings.table_settings import TableRule, TableRules, TableSettings
from headstream.replicate.storage.places import Place
from tests.support.replicate.pipeline_work import Work
from tests.support.replicate.replicate_messages import make_table

WAIT_S = 60


class Names:
    """Registered names, and how long registering is refused."""

    def __init__(self, *, refused: int = 0) -> None:
        self.refused = refused
        self.found: list[CatalogName] = []
        self.came = threading.Event()
        self.may_end = threading.Event()
        self.may_end.set()

    def register(self, name: CatalogName, place: Place) -> None:
        self.came.set()
        assert self.may_end.wait(WAIT_S)
        if self.refused:
            self.refused -= 1
            raise StorageError("the catalog is away", where=str(place))
        self.found.append(name)


def make_entry(directory: Path, table: str, *, exists: bool = True) -> CatalogEntry:
    if exists:
        DeltaTable.create(str(directory / table), schema=pa.schema([("id", pa.int32())]))
    return CatalogEntry(("SHOP", table), ("lake", "shop", table), directory / table)


def test_a_table_is_registered_once_however_often_it_is_offered(tmp_path: Path) -> None:
    names = Names()
    registration = Registration(names.register)
    entry = make_entry(tmp_path, "orders")
    for _ in range(3):
        registration.offer([entry])
    registration.finish(every_table=True)
    registration.offer([make_entry(tmp_path, "late")])
    assert names.found == [("lake", "shop", "orders")]
    assert registration.status() == {"registered": 1, "waiting": 0, "failing": []}


def test_a_table_that_the_catalog_refuses_is_tried_again_and_is_in_the_status_until_then(tmp_path: Path) -> None:
    names = Names(refused=1)
    names.may_end.clear()
    registration = Registration(names.register, first_pause_s=WAIT_S)
    registration.offer([make_entry(tmp_path, "orders")])
    assert names.came.wait(WAIT_S)
    assert registration.status() == {"registered": 0, "waiting": 1, "failing": []}, "offer() does not wait for the catalog"
    names.may_end.set()
    registration.offer([make_entry(tmp_path, "lines")])
    registration.finish(every_table=True)
    assert sorted(names.found) == [("lake", "shop", "lines"), ("lake", "shop", "orders")]

    refused = Names(refused=5)
    registration = Registration(refused.register, first_pause_s=WAIT_S)
    registration.offer([make_entry(tmp_path, "customers")])
    registration.finish(every_table=True)
    (failing,) = registration.status()["failing"]
    assert failing == {
        "table": "SHOP.customers",
        "name": "lake.shop.customers",
        "reason": f"the catalog is away ({tmp_path / 'customers'})",
    }


def test_a_refused_table_is_tried_again_after_a_pause_without_being_offered(tmp_path: Path) -> None:
    names = Names(refused=3)
    registration = Registration(names.register, first_pause_s=0.01)
    registration.offer([make_entry(tmp_path, "orders")])
    ended = threading.Event()
    for _ in range(WAIT_S * 10):
        if registration.status()["registered"]:
            break
        ended.wait(0.1)
    registration.close()
    assert names.found == [("lake", "shop", "orders")]


def test_a_table_without_a_commit_is_not_registered_until_it_is_offered_with_one(tmp_path: Path) -> None:
    names = Names()
    registration = Registration(names.register, first_pause_s=WAIT_S)
    registration.offer([make_entry(tmp_path, "orders", exists=False), make_entry(tmp_path, "lines")])
    for _ in range(WAIT_S * 100):
        if registration.status()["waiting"] == 0:
            break
        names.came.wait(0.01)
        threading.Event().wait(0.01)
    assert names.found == [("lake", "shop", "lines")]
    registration.offer([make_entry(tmp_path, "orders")])
    registration.finish(every_table=True)
    assert names.found == [("lake", "shop", "lines"), ("lake", "shop", "orders")]


def test_the_end_of_a_run_that_is_stopped_waits_for_one_attempt_only(tmp_path: Path) -> None:
    names = Names(refused=200)
    registration = Registration(names.register, first_pause_s=WAIT_S)
    registration.offer([make_entry(tmp_path, f"t{number}") for number in range(50)])
    registration.finish(every_table=False)
    tried = 200 - names.refused
    assert 1 <= tried <= 100  # the attempt that offer() began can have ended before finish() begins its own
    assert registration.status()["waiting"] == 50


def test_names_in_the_catalog_are_those_of_the_targets(tmp_path: Path) -> None:
    rules = TableRules(
        defaults=TableSettings(catalog="lake.{schema}.{table}", target="cdc_{schema}.{table}"),
        rules=(TableRule("shop.secret", {"catalog": ""}),),
    )
    work = Work(tmp_path, rules=rules)
    work.send(metadata_message(make_table()), metadata_message(make_table(schema_id="2" * 32, table="secret")))
    work.schema_store.scan()
    assert find_catalog_names(work.schema_store, rules) == {("cdc_shop", "kit"): ("lake", "cdc_shop", "kit")}
    work.close()
