"""Names of tables in a catalog: how a template is filled, and which ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstream.errors import InvalidOptionError
from headstream.replicate.settings.catalog_names import find_catalog_name_problem, make_catalog_name
from headstream.replicate.settings.config_file import load_config
from tests.unit.replicate.settings.test_config_file import LEAST, write


@pytest.mark.parametrize(
    ("template", "schema", "table", "name"),
    [
        ("lake.{schema}.{table}", "SHOP", "orders", ("lake", "SHOP", "orders")),
        ("{schema}.{table}", "", "orders", ("default", "orders")),
        ("lake.cdc_{schema}.{table}_raw", "", "orders", ("lake", "cdc_", "orders_raw")),
        ("lake.cdc.{schema}__{table}", "a.b", "c`d", ("lake", "cdc", "a.b__c`d")),
        ("shop.order_lines", "SHOP", "order lines", ("shop", "order_lines")),
        ("{schema}.{table}", "{table}", "{schema}", ("{table}", "{schema}")),
    ],
)
def test_a_template_is_filled_with_schema_and_table_part_by_part(
    template: str, schema: str, table: str, name: tuple[str, ...]
) -> None:
    assert find_catalog_name_problem(template) is None
    assert make_catalog_name(template, schema, table) == name


@pytest.mark.parametrize(
    ("template", "what"),
    [
        ("lake.{task}.{table}", "{task} is not {schema} or {table}"),
        ("lake.{}.{table}", "{} is not {schema} or {table}"),
        ("lake.{table!r}", "{table} is not {schema} or {table}"),
        ("lake..{table}", "has an empty part"),
        ("lake.{table}.", "has an empty part"),
        ("lake.{table", "cannot be read"),
    ],
)
def test_a_template_that_names_no_table_is_refused_with_the_reason(template: str, what: str) -> None:
    assert what in (find_catalog_name_problem(template) or "")


def test_a_table_can_have_another_name_in_the_catalog_or_none(tmp_path: Path) -> None:
    text = f'{LEAST}[defaults]\ncatalog = "lake.{{schema}}.{{table}}"\n[table."shop.tmp_*"]\ncatalog = ""\n'
    rules = load_config(write(tmp_path, text)).rules
    assert rules.settings_of("shop", "orders").catalog == "lake.{schema}.{table}"
    assert rules.settings_of("shop", "tmp_1").catalog == ""
    assert rules.has_catalog
    assert not load_config(write(tmp_path, LEAST)).rules.has_catalog
    assert load_config(write(tmp_path, f'{LEAST}[table."a.b"]\ncatalog = "x"\n')).rules.has_catalog
    with pytest.raises(InvalidOptionError, match=r"defaults\.catalog: \{server\} is not"):
        load_config(write(tmp_path, f'{LEAST}[defaults]\ncatalog = "{{server}}.x"\n'))
