"""Columns that grow, by deltalake: in as many tables at once as there are, whatever threads its runtime has."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from headstream.replicate.apply.deltalake import DeltaLakeEngine
from headstream.replicate.apply.evolution import Evolution, plan_evolution
from headstream.replicate.columns.conversion import arrow_type
from tests.support.replicate.plain_engine import open_plain_engine

GROWTHS = {
    ("INT", "BIGINT"): 2**31 - 1,
    ("BIGINT", "DECIMAL(19,0)"): -(2**63),
    ("SMALLINT", "FLOAT"): -(2**15),
    ("INT", "DOUBLE"): 2**31 - 1,
    ("FLOAT", "DOUBLE"): 0.1,
    ("DECIMAL(10,2)", "DECIMAL(12,4)"): Decimal("-12345678.91"),
    ("DATE", "TIMESTAMP"): date(9999, 12, 31),
    ("DATE", "TIMESTAMP_NTZ"): date(1, 1, 1),
}
"""Each change of type that loses nothing, and a value at an end of the narrow type's range."""
_DEADLINE_S = 300
_ROWS = 5000


def widen_table(path: Path, partition_by: list[str]) -> DeltaLakeEngine:
    """Make a table of a few files and widen two of its columns."""
    engine = open_plain_engine(path)
    engine.create({"id": "INT", "a": "SMALLINT", "p": "STRING"}, partition_by)
    for version in range(3):
        ids = pa.array(range(version * _ROWS, (version + 1) * _ROWS), pa.int32())
        rows = {"id": ids, "a": pa.array([1] * _ROWS, pa.int16()), "p": ["x y", None] * (_ROWS // 2)}
        engine.append(pa.table(rows), "app", version)
    engine.widen({"id": "BIGINT", "a": "INT"})
    return engine


@pytest.mark.parametrize("partition_by", [[], ["p"]])
def test_widening_a_column_keeps_every_row(tmp_path: Path, partition_by: list[str]) -> None:
    engine = widen_table(tmp_path / "t", partition_by)
    rows = open_plain_engine(tmp_path / "t").read(["id", "a", "p"], "TRUE").sort_by("id")
    assert rows.schema.types == [pa.int64(), pa.int32(), pa.string()]
    assert rows["id"].to_pylist() == list(range(3 * _ROWS))
    assert rows["p"].to_pylist() == ["x y", None] * (3 * _ROWS // 2)
    assert engine.columns == {"id": "BIGINT", "a": "INT", "p": "STRING"}


@pytest.mark.parametrize(("narrow", "wide"), GROWTHS)
def test_widening_gives_the_same_values_in_the_wide_type(tmp_path: Path, narrow: str, wide: str) -> None:
    assert plan_evolution({"a": narrow}, {"a": wide}) == Evolution({}, {"a": wide})
    assert plan_evolution({"a": wide}, {"a": narrow}) == Evolution({}, {})
    engine = open_plain_engine(tmp_path / "t")
    engine.create({"a": narrow}, [])
    rows = pa.table({"a": pa.array([GROWTHS[narrow, wide], None]).cast(arrow_type(narrow))})
    engine.append(rows, "app", 1)
    engine.widen({"a": wide})
    again = open_plain_engine(tmp_path / "t")
    assert again.columns == {"a": wide}
    assert again.read(["a"], "TRUE")["a"].combine_chunks() == rows["a"].cast(arrow_type(wide)).combine_chunks()


def widen_together(directory: Path) -> None:
    """Widen columns of four tables at the same time, three times."""
    with ThreadPoolExecutor(4) as pool:
        made = [pool.submit(widen_table, directory / f"t{number}", ["p"][: number % 2]) for number in range(12)]
        assert [one.result().columns["id"] for one in made] == ["BIGINT"] * 12


def test_tables_that_are_widened_at_the_same_time_do_not_wait_for_each_other(tmp_path: Path) -> None:
    code = f"from pathlib import Path; import {__name__} as this; this.widen_together(Path({str(tmp_path)!r}))"
    root = Path(__file__).parents[4]
    environment = os.environ | {"TOKIO_WORKER_THREADS": "1", "PYTHONPATH": str(root)}
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=root, check=True, timeout=_DEADLINE_S)
