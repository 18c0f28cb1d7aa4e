"""Puts the simulated source's tables and rows into a real PostgreSQL, which is then the source that a comparison reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import psycopg
from psycopg import sql

from headstream.replicate.codec import TableMetadata
from headstream.testing import PostgresServer, SourceDatabase

_TYPES: Final = {
    "INT1": "smallint", "INT2": "smallint", "INT4": "integer", "INT8": "bigint",
    "UINT1": "smallint", "UINT2": "integer", "UINT4": "bigint", "UINT8": "numeric(20,0)",
    "REAL4": "real", "REAL8": "double precision", "BOOLEAN": "boolean", "BYTES": "bytea", "BLOB": "bytea",
    "STRING": "text", "WSTRING": "text", "CLOB": "text", "NCLOB": "text",
    "DATE": "date", "TIME": "time", "DATETIME": "timestamp",
}  # fmt: skip


def fill_postgres(server: PostgresServer, source: SourceDatabase, tables: Iterable[tuple[str, str]]) -> None:
    """Create tables of the source in its last version, with its last rows; existing ones are replaced."""
    wanted = set(tables)
    newest = {(each.lineage.schema, each.lineage.table): each for each in source.tables()}
    with psycopg.connect(server.url, autocommit=True) as connection:
        for schema in {schema for schema, _ in wanted}:
            connection.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(schema)))
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        for schema, table in sorted(wanted):
            _fill(connection, newest[schema, table], source.final_state(schema, table).values())


def run_sql(server: PostgresServer, statement: str, *values: Any) -> int:
    """Run a statement; return how many rows it changed."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        return connection.execute(statement.encode(), values).rowcount


def _fill(connection: psycopg.Connection[Any], table: TableMetadata, rows: Iterable[dict[str, Any]]) -> None:
    name = sql.Identifier(table.lineage.schema, table.lineage.table)
    columns = [
        sql.SQL("{} {}").format(sql.Identifier(c.name), sql.SQL(_type(c.type, c.precision, c.scale))) for c in table.columns
    ]
    keys = sql.SQL(", ").join(map(sql.Identifier, table.key_columns))
    create = sql.SQL("CREATE TABLE {} ({}, PRIMARY KEY ({}))")
    connection.execute(create.format(name, sql.SQL(", ").join(columns), keys))
    names = [column.name for column in table.columns]
    copy = sql.SQL("COPY {} ({}) FROM STDIN").format(name, sql.SQL(", ").join(map(sql.Identifier, names)))
    with connection.cursor() as cursor, cursor.copy(copy) as target:
        for row in rows:
            target.write_row([_without_zone(row.get(column)) for column in names])


def _type(kind: str, precision: int, scale: int) -> str:
    return f"numeric({precision},{scale})" if kind == "NUMERIC" else _TYPES[kind]


def _without_zone(value: Any) -> Any:
    """Return a time of the simulated source as a column without a zone holds it: as UTC."""
    return value.replace(tzinfo=None) if getattr(value, "tzinfo", None) is not None and hasattr(value, "date") else value
