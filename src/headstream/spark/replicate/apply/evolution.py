"""How a table's columns follow its source: which differences are mended, and which are refused."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from headstream.errors import SchemaError

__all__ = ["Evolution", "plan_evolution"]

_INTEGERS: Final = {"TINYINT": 3, "SMALLINT": 5, "INT": 10, "BIGINT": 19}  # decimal digits


@dataclass(frozen=True, slots=True)
class Evolution:
    """What must happen to a table before changes of a schema can be merged into it.

    Args:
        added: Columns to add: name -> type.
        widened: Columns whose type must grow: name -> the new type.
    """

    added: dict[str, str]
    widened: dict[str, str]


def plan_evolution(table: Mapping[str, str], schema: Mapping[str, str]) -> Evolution:
    """Return what makes a table able to hold rows of a schema.

    A column the table lacks is added (null in old rows), a column the schema lacks stays, a type that grew is widened,
    and rows of an older, narrower schema fit as they are.

    Args:
        table: The table's columns and their Spark types.
        schema: The columns and types that changes come in.

    Raises:
        SchemaError: a column's types cannot both be held by one of them.
    """
    added, widened = {}, {}
    for name, wanted in schema.items():
        present = table.get(name)
        if present is None:
            added[name] = wanted
        elif not _holds(present, wanted):
            if not _holds(wanted, present):
                raise SchemaError(
                    f"column {name!r} is {present} in the table and {wanted} in the schema, and neither holds the other",
                    advice="Load the table again into an empty directory",
                )
            widened[name] = wanted
    return Evolution(added, widened)


def _holds(wide: str, narrow: str) -> bool:
    """Return whether every value of a type can be held by another one without loss."""
    if wide == narrow or (wide, narrow) == ("DOUBLE", "FLOAT"):
        return True
    if wide in _INTEGERS and narrow in _INTEGERS:
        return _INTEGERS[wide] >= _INTEGERS[narrow]
    room, scale = _decimal(wide)
    if room < 0:
        return False
    if narrow in _INTEGERS:
        return room - scale >= _INTEGERS[narrow]
    digits, needed_scale = _decimal(narrow)
    return digits >= 0 and scale >= needed_scale and room - scale >= digits - needed_scale


def _decimal(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", text.replace(" ", ""))
    return (int(match[1]), int(match[2])) if match is not None else (-1, 0)
