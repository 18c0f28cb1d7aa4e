"""Tables registered in a catalog: Hive's metastore as a service of its own, and a real pipeline whose session uses it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.replicate import catalog_jobs

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(900)]


def run_job(job: str, directory: Path) -> dict[str, Any]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-m", catalog_jobs.__name__, job, str(directory)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=directory, timeout=800)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return run_job("names", tmp_path_factory.mktemp("names"))


def test_tables_are_found_by_name_when_they_are_made_and_none_of_them_is_changed_by_that(names: dict[str, Any]) -> None:
    assert names["rows"] == {"shop.orders": [1], "default.loose": [1], "shop.order_lines": [1]}
    assert names["version"][0] == names["version"][1]
    assert names["details"]["Type"] == "EXTERNAL"
    assert names["details"]["Location"].endswith("/tables/SHOP/orders")


def test_a_table_that_lacks_its_name_gets_it_with_the_next_run_and_the_others_keep_theirs(names: dict[str, Any]) -> None:
    assert names["again"] == {"shop.orders": [1], "default.loose": [1, 2]}
    assert (names["second"]["registered"], names["second"]["waiting"]) == (3, 3)


def test_a_name_of_another_table_or_view_or_one_that_the_catalog_refuses_is_in_the_status_and_its_table_gets_its_rows(
    names: dict[str, Any],
) -> None:
    assert set(names["kept"].values()) == {1}
    reasons = {found["table"]: found["reason"] for found in names["first"]["failing"]}
    assert "in the catalog, spark_catalog.SHOP.taken is a different table, located at file:" in reasons.pop("SHOP.taken")
    assert "SHOP.some_view is a view in the catalog" in reasons.pop("SHOP.view")
    assert "INVALID_SCHEMA_OR_RELATION_NAME" in reasons.pop("SHOP.o'clock 100%")
    assert reasons == {}


def test_tables_get_their_rows_while_the_catalog_is_away_and_their_names_when_it_is_back(tmp_path: Path) -> None:
    found = run_job("away", tmp_path)
    assert found["away"]["rows"] == 1
    (failing,) = found["away"]["failing"]
    assert failing["name"] == "spark_catalog.SHOP.orders"
    assert (found["back"]["registered"], found["back"]["failing"]) == (1, [])
    assert 1 in found["rows"]
