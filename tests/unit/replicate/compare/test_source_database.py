"""URLs of source databases."""

from __future__ import annotations

import pytest

from headstream.errors import InvalidInputError
from headstream.replicate.compare.source_database import JdbcAccess


@pytest.mark.parametrize(
    ("url", "jdbc", "jar_set"),
    [
        ("postgresql://me:p%40ss@db:5433/shop?sslmode=require", "jdbc:postgresql://db:5433/shop?sslmode=require", "postgresql"),
        ("mariadb://me:p%40ss@db/shop", "jdbc:mysql://db/shop?permitMysqlScheme", "mariadb"),
        ("mysql://me:p%40ss@db/shop?useSsl=true", "jdbc:mysql://db/shop?permitMysqlScheme&useSsl=true", "mariadb"),
    ],
)
def test_parse_gives_the_drivers_url_and_keeps_the_password_out_of_it(url: str, jdbc: str, jar_set: str) -> None:
    access = JdbcAccess.parse(url)
    assert (access.url, access.jar_set) == (jdbc, jar_set)
    assert (access.options["user"], access.options["password"]) == ("me", "p@ss")
    assert "p@ss" not in repr(access)


def test_parse_passes_urls_of_other_drivers_on_and_rejects_other_texts() -> None:
    assert JdbcAccess.parse("jdbc:sqlserver://db;databaseName=shop").jar_set is None
    for text in ("shop", "http://db/shop", "postgresql://db", "postgresql:///shop"):
        with pytest.raises(InvalidInputError, match="the URL does not name a source database"):
            JdbcAccess.parse(text)
