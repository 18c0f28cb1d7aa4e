"""Rejects catalog tables of the headstream format with an error that gives advice; Spark's own errors give none.

saveAsTable, toTable, writeTo(...).using("headstream").create()     rejected before anything runs
CREATE TABLE ... USING headstream [AS SELECT ...]                   Spark's error is replaced
SELECT ... FROM headstream.`url`, INSERT INTO headstream.`url`      Spark's error is replaced
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, Final

from headstream.errors import InvalidOptionError

_FORMAT: Final = "headstream"
_MARK: Final = "_headstream_provider"
_QUOTED: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_TABLE: Final = re.compile(
    r"\s*(?:CREATE|REPLACE)\b.*?\bTABLE\b.*?\bUSING\s+`?headstream`?(?:\s|\(|;|$)", re.IGNORECASE | re.DOTALL
)


_DIRECT: Final = re.compile(r"\b(FROM|JOIN|INTO|TABLE|OVERWRITE)\s+`?headstream`?\s*\.\s*`([^`]*)`", re.IGNORECASE)
_NO_DIRECT_QUERY: Final = "UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY"
_WRITING: Final = (
    'Write with .format("headstream").option("url", ...).option("topic", ...).mode("append").save(), a stream with .start(); '
)
_VIEW: Final = "read with CREATE TEMPORARY VIEW ... USING headstream OPTIONS (url '...', subscribe '...')"
_KAFKA_VIEW: Final = (
    'read with a view of a DataFrame: spark.read.format("headstream").option("url", "kafka://...").option("subscribe", "...")'
    '.load().createOrReplaceTempView("orders"), then SELECT ... FROM orders'
)


def table_error(what: str, url: str = "") -> InvalidOptionError:
    """Return the error for a catalog table, or for a URL in place of a table name.

    Args:
        url: The URL of the log, or a string that contains the URL; "" if unknown.
    """
    return InvalidOptionError(
        f"{what} is not supported: a topic cannot be a table in a catalog",
        advice=_WRITING + (_KAFKA_VIEW if "kafka://" in url else _VIEW),
    )


def _sql_error(query: str, error: Exception) -> InvalidOptionError | None:
    """Return the error for a statement that uses a table of the headstream format; None for other statements."""
    bare = _QUOTED.sub(" ", query)
    if _TABLE.match(bare):
        return table_error("CREATE TABLE ... USING headstream", query)
    direct = _DIRECT.search(bare)
    if direct is not None and ("://" in direct[2] or _NO_DIRECT_QUERY in str(error)):  # a schema can have this name
        return table_error(f"{direct[1].upper()} headstream.`...`", direct[2])
    return None


def refusing_table(method: Callable[..., Any], source_of: Callable[[Any], str | None]) -> Callable[..., Any]:
    """Return a writer's saveAsTable() or toTable() that rejects the headstream format.

    Args:
        method: A method of the writer; its second argument is a format or None.
        source_of: Returns the format that was set on a writer.
    """

    @functools.wraps(method)
    def refuse(self: Any, name: str, format: str | None = None, *arguments: Any, **named: Any) -> Any:
        if (format or source_of(self) or "").lower() == _FORMAT:
            raise table_error(f'{method.__name__}({name!r}) with format("headstream")')
        return method(self, name, format, *arguments, **named)

    return refuse


def refuse_written_tables(kind: Any) -> None:
    """Make the writer of writeTo() reject tables of the headstream format; repeated calls do nothing."""
    if _MARK in vars(kind):
        return
    setattr(kind, _MARK, None)
    kind.using = _recording(kind.using)
    for name in ("create", "replace", "createOrReplace"):
        setattr(kind, name, _checking(getattr(kind, name)))


def _recording(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def record(self: Any, provider: str) -> Any:
        setattr(self, _MARK, provider)
        return method(self, provider)

    return record


def _checking(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def check(self: Any) -> Any:
        if (getattr(self, _MARK) or "").lower() == _FORMAT:
            raise table_error(f'writeTo(...).using("headstream").{method.__name__}()')
        return method(self)

    return check


def refuse_sql_tables(kind: Any) -> None:
    """Make a session's sql() raise table_error() if a statement uses a table of the headstream format."""
    if _MARK in vars(kind):
        return
    setattr(kind, _MARK, None)
    method = kind.sql

    @functools.wraps(method)
    def sql(self: Any, sqlQuery: str, *arguments: Any, **named: Any) -> Any:  # noqa: N803
        try:
            return method(self, sqlQuery, *arguments, **named)
        except Exception as error:
            ours = _sql_error(sqlQuery, error)
            if ours is None:
                raise
            raise ours from error

    kind.sql = sql
