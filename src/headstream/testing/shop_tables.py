"""The simulator's default tables: four of a small shop, and three with every type.

table                form  logical types   primary key                 purpose
SHOP.customers       avro  on              id                          altered half-way: a column added, INT4 widened to INT8
SHOP.orders          avro  on              number                      names that need quoting: `order date`, `group`
SHOP.order_lines     avro  off             order_id, line              decimals and times as strings, NUMERIC(38,10)
SHOP.documents       json  -               code                        large objects, keys with all kinds of text
LAB.readings         avro  on              sensor, taken               every type
LAB.samples          avro  off             id (NUMERIC)                every type
LAB.devices          json  -               id (UINT8)                  every type
"""

from __future__ import annotations

from typing import Final

from headstream.testing.source_tables import SourceColumn, SourceTable


def _required(name: str, kind: str, *, key: int = 0, length: int = 0, precision: int = 0, scale: int = 0) -> SourceColumn:
    return SourceColumn(name, kind, length, precision, scale, key, nullable=False)


def _every_type() -> tuple[SourceColumn, ...]:
    return (
        SourceColumn("tiny", "INT1"),
        SourceColumn("small", "INT2"),
        SourceColumn("medium", "INT4"),
        SourceColumn("large", "INT8"),
        SourceColumn("utiny", "UINT1"),
        SourceColumn("usmall", "UINT2"),
        SourceColumn("umedium", "UINT4"),
        SourceColumn("ularge", "UINT8"),
        SourceColumn("single", "REAL4"),
        SourceColumn("double", "REAL8"),
        SourceColumn("amount", "NUMERIC", precision=18, scale=4),
        SourceColumn("flag", "BOOLEAN"),
        SourceColumn("short_bytes", "BYTES", length=16),
        SourceColumn("long_bytes", "BLOB", length=4096),
        SourceColumn("text", "STRING", length=40),
        SourceColumn("wide_text", "WSTRING", length=40),
        SourceColumn("long_text", "CLOB", length=4096),
        SourceColumn("long_wide_text", "NCLOB", length=4096),
        SourceColumn("day", "DATE"),
        SourceColumn("hour", "TIME"),
        SourceColumn("moment", "DATETIME"),
    )


_CUSTOMERS: Final = (
    _required("id", "INT8", key=1),
    _required("name", "WSTRING", length=60),
    SourceColumn("email", "STRING", length=80),
    _required("active", "BOOLEAN"),
    SourceColumn("birthday", "DATE"),
    SourceColumn("credit", "NUMERIC", precision=12, scale=2),
    SourceColumn("visits", "INT4"),
    SourceColumn("score", "REAL8"),
    _required("since", "DATETIME"),
)

SHOP_TABLES: Final = (
    SourceTable(
        "SHOP",
        "customers",
        versions=(
            _CUSTOMERS,
            (
                *(SourceColumn("visits", "INT8") if column.name == "visits" else column for column in _CUSTOMERS),
                SourceColumn("tier", "STRING", length=20),
            ),
        ),
        weight=3,
    ),
    SourceTable(
        "SHOP",
        "orders",
        versions=(
            (
                _required("number", "INT4", key=1),
                _required("customer_id", "INT8"),
                SourceColumn("order date", "DATE"),
                SourceColumn("order time", "TIME"),
                _required("total", "NUMERIC", precision=18, scale=4),
                SourceColumn("group", "STRING", length=20),
                SourceColumn("updated", "DATETIME"),
            ),
        ),
        weight=4,
    ),
    SourceTable(
        "SHOP",
        "order_lines",
        versions=(
            (
                _required("order_id", "INT8", key=1),
                _required("line", "UINT2", key=2),
                _required("product", "WSTRING", length=40),
                SourceColumn("quantity", "INT2"),
                SourceColumn("price", "NUMERIC", precision=38, scale=10),
                SourceColumn("discount", "REAL4"),
                SourceColumn("gift", "BOOLEAN"),
                SourceColumn("shipped", "DATETIME"),
            ),
        ),
        logical_types=False,
        weight=5,
    ),
    SourceTable(
        "SHOP",
        "documents",
        versions=(
            (
                _required("code", "WSTRING", key=1, length=60),
                SourceColumn("title", "NCLOB", length=2000),
                SourceColumn("body", "CLOB", length=8000),
                SourceColumn("scan", "BLOB", length=4096),
                SourceColumn("fingerprint", "BYTES", length=16),
                SourceColumn("pages", "UINT2"),
                SourceColumn("filed", "DATE"),
            ),
        ),
        form="json",
        weight=2,
    ),
    SourceTable(
        "LAB",
        "readings",
        versions=((_required("sensor", "STRING", key=1, length=40), _required("taken", "DATETIME", key=2), *_every_type()),),
    ),
    SourceTable(
        "LAB",
        "samples",
        versions=((_required("id", "NUMERIC", key=1, precision=20, scale=2), *_every_type()),),
        logical_types=False,
    ),
    SourceTable("LAB", "devices", versions=((_required("id", "UINT8", key=1), *_every_type()),), form="json"),
)
"""The default tables of a SourceDatabase."""
