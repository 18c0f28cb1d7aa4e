from __future__ import annotations

import pytest

from headstream.core.codec.batch.results import WantedHeader
from headstream.errors import InvalidOptionError
from headstream.spark.source.header_columns import parse_header_columns


def test_parse_header_columns_reads_names_and_types_as_a_create_table_does() -> None:
    text = " attempt INT,source string , `x-total` DECIMAL( 38 , 0 ),`a``b` bigint,ok: boolean,d DECIMAL, e dec(5)"
    assert parse_header_columns(text) == (
        WantedHeader("attempt", "int32"),
        WantedHeader("source", "string"),
        WantedHeader("x-total", "decimal", 38),
        WantedHeader("a`b", "int64"),
        WantedHeader("ok", "bool"),
        WantedHeader("d", "decimal", 10),
        WantedHeader("e", "decimal", 5),
    )


@pytest.mark.parametrize(
    ("type_", "expected"),
    [
        ("TINYINT", "int8"), ("SMALLINT", "int16"), ("INTEGER", "int32"), ("LONG", "int64"), ("FLOAT", "float32"),
        ("DOUBLE", "float64"), ("BINARY", "binary"), ("BYTE", "int8"), ("SHORT", "int16"), ("REAL", "float32"),
    ],
)  # fmt: skip
def test_parse_header_columns_knows_every_type(type_: str, expected: str) -> None:
    (column,) = parse_header_columns(f"h {type_}")
    assert column.type == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "names no column"),
        ("attempt", "cannot be parsed at 'attempt'"),
        ("attempt INT source STRING", "cannot be parsed at 'attempt INT source STRING'"),
        ("a INT, x-total INT", "cannot be parsed at 'x-total INT'"),
        ("a INT, A STRING", "has 'a' twice"),
        ("a TIMESTAMP", "a cannot be of type TIMESTAMP"),
        ("a INT(5)", "the type INT of a cannot have a length"),
        ("a DECIMAL(10,2)", "a is a DECIMAL(10,2)"),
        ("a DECIMAL(39)", "a is a DECIMAL(39,0)"),
        (f"`{'k' * 256}` INT", "must have 1 to 255 bytes"),
    ],
)
def test_parse_header_columns_says_what_it_cannot_read(text: str, said: str) -> None:
    with pytest.raises(InvalidOptionError) as raised:
        parse_header_columns(text)
    assert said in str(raised.value)
