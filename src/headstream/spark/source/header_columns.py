"""Parses header columns with declared types: `headerColumns = "attempt INT, source STRING"`.

    BOOLEAN                          bool
    TINYINT SMALLINT INT BIGINT      every int and uint kind, in the type's range
    DECIMAL(p,0)                     every int and uint kind of at most p digits, 38 at most
    FLOAT                            float32; a whole number of at most 24 bits
    DOUBLE                           float64, float32; a whole number of at most 53 bits
    STRING                           string, char
    BINARY                           raw; the bytes of an unknown kind

The column is null if the header is missing or of kind null. If a header is repeated, its last value is used. If a value does not
fit the column's type, headerMismatch determines whether the column is null or an error is raised.
"""

from __future__ import annotations

import re
from typing import Final

from headstream.core.codec.batch.results import HeaderType, WantedHeader
from headstream.core.model.header_block import check_key
from headstream.errors import HeaderError, InvalidOptionError

_TYPES: Final[dict[str, HeaderType]] = {
    "BOOLEAN": "bool", "TINYINT": "int8", "BYTE": "int8", "SMALLINT": "int16", "SHORT": "int16", "INT": "int32",
    "INTEGER": "int32", "BIGINT": "int64", "LONG": "int64", "FLOAT": "float32", "REAL": "float32", "DOUBLE": "float64",
    "STRING": "string", "BINARY": "binary", "DECIMAL": "decimal", "DEC": "decimal", "NUMERIC": "decimal",
}  # fmt: skip
_COLUMN: Final = re.compile(
    r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<name>\w+))"  # an SQL name: characters other than \w require backticks
    r"\s*:?\s+(?P<type>[A-Za-z]+)\s*(?:\(\s*(?P<digits>\d+)\s*(?:,\s*(?P<scale>\d+)\s*)?\))?\s*(?:,|$)"
)
_ADVICE: Final = "Write names and types, for example attempt INT, source STRING, `x-total` DECIMAL(38,0)"
_DEFAULT_DIGITS: Final = 10  # Spark's precision of DECIMAL without digits
_MAX_DIGITS: Final = 38


def parse_header_columns(text: str) -> tuple[WantedHeader, ...]:
    """Return the columns that the option headerColumns declares.

    Raises:
        InvalidOptionError: the option cannot be parsed, or has an unsupported type or a duplicate name (ignoring case).
    """
    wanted: list[WantedHeader] = []
    at = 0
    while at < len(text):
        found = _COLUMN.match(text, at)
        if found is None:
            raise InvalidOptionError(f"headerColumns cannot be parsed at {text[at:].strip()[:40]!r}", advice=_ADVICE)
        wanted.append(_parse_column(found))
        at = found.end()
    names = [column.name.lower() for column in wanted]
    twice = [name for name in names if names.count(name) > 1]
    if not wanted or twice:
        what = f"has {twice[0]!r} twice, ignoring case" if twice else "names no column"
        raise InvalidOptionError(f"headerColumns {what}", advice=_ADVICE)
    return tuple(wanted)


def _parse_column(found: re.Match[str]) -> WantedHeader:
    name = found["name"] or found["quoted"].replace("``", "`")
    try:
        check_key(name)
    except HeaderError as error:
        raise InvalidOptionError(f"headerColumns: {error}") from error
    kind = _TYPES.get(found["type"].upper())
    if kind is None:
        raise InvalidOptionError(
            f"headerColumns: {name} cannot be of type {found['type']}",
            advice="Use BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, DECIMAL, FLOAT, DOUBLE, STRING or BINARY",
        )
    if kind != "decimal":
        if found["digits"] is not None:
            raise InvalidOptionError(f"headerColumns: the type {found['type']} of {name} cannot have a length", advice=_ADVICE)
        return WantedHeader(name, kind)
    digits = int(found["digits"] or _DEFAULT_DIGITS)
    if int(found["scale"] or 0) or not 1 <= digits <= _MAX_DIGITS:
        raise InvalidOptionError(
            f"headerColumns: {name} is a DECIMAL({digits},{found['scale'] or 0})",
            advice=f"Whole numbers become DECIMAL(1,0) to DECIMAL({_MAX_DIGITS},0); no kind of header has decimal places",
        )
    return WantedHeader(name, kind, digits)
