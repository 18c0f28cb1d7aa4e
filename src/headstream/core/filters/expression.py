"""The expression tree of a filter, and the fields of a message that a filter can name."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, Union

LiteralValue: TypeAlias = None | bool | int | float | bytes
"""The value of a literal; a string is represented by its UTF-8 bytes."""


class ValueType(enum.Enum):
    """The types of values; only values of the same type can be compared. The enum values name the types in error messages."""

    NUMBER = "a number"
    BOOLEAN = "a boolean"
    TEXT = "a string"


class Field(enum.Enum):
    """A field of a message; the values are the names in a filter."""

    OFFSET = "_offset"
    TIMESTAMP = "_timestamp"
    STATE = "_state"
    ID = "_id"
    KEY = "_key"
    SIZE = "_size"


FIELD_TYPES: Final = {field: ValueType.TEXT if field is Field.KEY else ValueType.NUMBER for field in Field}


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal, at character `at`; a quoted string compared with a field can be a state, a time or an id."""

    value: LiteralValue
    at: int
    text: str
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class Header:
    """The last value of a header in a message."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class FieldOf:
    """A field of the message."""

    field: Field
    at: int


Operand: TypeAlias = Union[Literal, Header, FieldOf]


@dataclass(frozen=True, slots=True)
class Condition:
    """A boolean header, TRUE, FALSE or NULL as a condition."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison; `test` is one of = <> < <= > >=."""

    test: str
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class In:
    """Whether a value equals one of the values in a list."""

    operand: Operand
    choices: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """Whether a string matches a pattern in UTF-8, in which 0xFF matches any characters and 0xFE matches one character."""

    operand: Operand
    pattern: bytes


@dataclass(frozen=True, slots=True)
class IsNull:
    """Whether a value is missing or null."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of an expression."""

    inner: Expression


@dataclass(frozen=True, slots=True)
class And:
    """Whether all of two or more expressions are true."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Whether at least one of two or more expressions is true."""

    parts: tuple[Expression, ...]


Expression: TypeAlias = Union[Condition, Compare, In, Like, IsNull, Not, And, Or]


def operands_of(expression: Expression) -> Iterator[Operand]:
    """Iterate over the operands of an expression, in order."""
    match expression:
        case And(parts) | Or(parts):
            for part in parts:
                yield from operands_of(part)
        case Not(inner):
            yield from operands_of(inner)
        case Compare(_, left, right):
            yield left
            yield right
        case In(operand, choices):
            yield operand
            yield from choices
        case Condition(operand) | Like(operand, _) | IsNull(operand):
            yield operand
