from __future__ import annotations

import pytest

from headstream.core.model.local_paths import find_path_problem, parse_local_path
from headstream.errors import InvalidOptionError


@pytest.mark.parametrize(
    ("text", "scheme"),
    [
        ("s3://lake/tables", "s3"),
        ("s3a://lake/tables", "s3a"),
        ("S3A:/lake/tables", "s3a"),
        ("hdfs:///user/x", "hdfs"),
        ("abfss://a@b.dfs.core.windows.net/x", "abfss"),
        ("dbfs:/mnt/lake", "dbfs"),
        ("gs://lake", "gs"),
    ],
)
def test_parse_local_path_names_the_scheme_when_it_is_not_served(text: str, scheme: str) -> None:
    with pytest.raises(InvalidOptionError, match=rf"the scheme {scheme}: is not supported"):
        parse_local_path(text)
    assert find_path_problem(text.replace("://", ":/")) is not None  # as pathlib writes it


@pytest.mark.parametrize("text", ["main.cdc.changes", "lake.{schema}.{table}", "{schema}.{table}", "lake.{table}"])
def test_parse_local_path_refuses_a_catalogs_name_when_tables_lie_there(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="looks like a catalog table name"):
        parse_local_path(text, is_table=True)
    assert parse_local_path(text) == text
    assert parse_local_path(f"./{text}", is_table=True) == f"./{text}"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("file:///data/a%20b", "/data/a b"),
        ("file:/data", "/data"),
        ("file://localhost/data", "/data"),
        ("/data/tables", "/data/tables"),
        ("tables.v2", "tables.v2"),
        ("C:/data", "C:/data"),
        ("./s3:/lake", "./s3:/lake"),
        ("a/b:/c", "a/b:/c"),
    ],
)
def test_parse_local_path_returns_the_path_when_it_is_of_this_machine(text: str, path: str) -> None:
    assert parse_local_path(text, is_table=True) == path


@pytest.mark.parametrize("text", ["file://other-host/data", "file://data", "file:///data?x=1"])
def test_parse_local_path_refuses_a_file_url_when_it_names_no_absolute_path_here(text: str) -> None:
    with pytest.raises(InvalidOptionError, match="is not a directory on this machine"):
        parse_local_path(text)
