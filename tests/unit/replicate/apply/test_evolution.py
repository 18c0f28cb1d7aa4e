from __future__ import annotations

import pytest

from headstream.errors import SchemaError
from headstream.replicate.apply.evolution import Evolution, plan_evolution


@pytest.mark.parametrize(
    ("table", "schema", "expected"),
    [
        ({"a": "INT"}, {"a": "INT"}, Evolution({}, {})),
        ({"a": "INT"}, {"a": "INT", "b": "STRING"}, Evolution({"b": "STRING"}, {})),
        ({"a": "INT", "b": "STRING"}, {"a": "INT"}, Evolution({}, {})),
        ({"a": "INT"}, {"a": "BIGINT"}, Evolution({}, {"a": "BIGINT"})),
        ({"a": "BIGINT"}, {"a": "TINYINT"}, Evolution({}, {})),
        ({"a": "FLOAT"}, {"a": "DOUBLE"}, Evolution({}, {"a": "DOUBLE"})),
        ({"a": "DECIMAL(10,2)"}, {"a": "DECIMAL(12,2)"}, Evolution({}, {"a": "DECIMAL(12,2)"})),
        ({"a": "DECIMAL(12,4)"}, {"a": "DECIMAL(10,2)"}, Evolution({}, {})),
        ({"a": "INT"}, {"a": "DECIMAL(10,0)"}, Evolution({}, {"a": "DECIMAL(10,0)"})),
    ],
)
def test_plan_evolution_adds_and_widens(table: dict[str, str], schema: dict[str, str], expected: Evolution) -> None:
    assert plan_evolution(table, schema) == expected


@pytest.mark.parametrize(
    ("present", "wanted"),
    [
        ("INT", "STRING"),
        ("DECIMAL(10,2)", "DECIMAL(10,4)"),
        ("BIGINT", "DOUBLE"),
        ("INT", "DECIMAL(9,0)"),
        ("DATE", "STRING"),
        ("INT", "FLOAT"),
        ("TIMESTAMP", "TIMESTAMP_NTZ"),
        ("BOOLEAN", "TINYINT"),
    ],
)
def test_plan_evolution_refuses_types_that_do_not_hold_each_other(present: str, wanted: str) -> None:
    with pytest.raises(SchemaError, match="column 'a'"):
        plan_evolution({"a": present}, {"a": wanted})
