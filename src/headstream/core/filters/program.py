"""Compiles an expression to the program that core/codec/batch/stored/filter_scan.py runs and describes."""

from __future__ import annotations

import struct
from typing import Final

from headstream.core.filters.evaluation import FALSE, TRUE, UNKNOWN
from headstream.core.filters.expression import (
    And,
    Compare,
    Condition,
    Expression,
    Field,
    FieldOf,
    Header,
    In,
    IsNull,
    Like,
    Literal,
    LiteralValue,
    Not,
    Operand,
    Or,
    operands_of,
)
from headstream.errors import InvalidInputError

_HEAD: Final = struct.Struct("<4H")
_VALUE: Final = struct.Struct("<3B5xQQ8x")
_FLOAT: Final = struct.Struct("<3B5xd16x")
_STEP: Final = struct.Struct("<2B3H")
_NAME: Final = struct.Struct("<2I")
_NULL, _WHOLE, _FLOATING, _BOOLEAN, _TEXT = range(5)
_IN_PROGRAM: Final = 1
_COMPARE, _IN, _LIKE, _IS_NULL, _TRUTH, _CONSTANT, _NOT, _AND, _OR, _JUMP = range(10)
_TESTS: Final = {"=": 0, "<>": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}
_FIELDS: Final = {field: number for number, field in enumerate(Field)}
_MASK64: Final = (1 << 64) - 1
_MAX_NUMBER: Final = (1 << 16) - 1


def compile_expression(expression: Expression) -> bytes:
    """Return the program for a typed expression; InvalidInputError if the program has too many steps or values."""
    return _Compiler(expression).compile()


class _Compiler:
    def __init__(self, expression: Expression) -> None:
        self._expression = expression
        operands = list(operands_of(expression))
        names = dict.fromkeys(operand.name for operand in operands if isinstance(operand, Header))
        self._headers = {name: len(_FIELDS) + number for number, name in enumerate(names)}
        self._fields = sum({1 << _FIELDS[operand.field] for operand in operands if isinstance(operand, FieldOf)})
        self._literals: list[LiteralValue] = []
        self._steps: list[tuple[int, int, int, int, int]] = []

    def compile(self) -> bytes:
        self._add(self._expression)
        values = len(_FIELDS) + len(self._headers) + len(self._literals)
        if max(values, len(self._steps)) > _MAX_NUMBER:
            raise InvalidInputError("the filter has too many comparisons")
        data = bytearray()
        data_at = _HEAD.size + _VALUE.size * values + _STEP.size * len(self._steps) + _NAME.size * len(self._headers)

        def place(text: bytes) -> tuple[int, int]:
            at = data_at + len(data)
            data.extend(text)
            return at, len(text)

        names = b"".join(_NAME.pack(*place(name.encode())) for name in self._headers)
        unset = bytes(_VALUE.size) * (len(_FIELDS) + len(self._headers))
        literals = b"".join(
            _VALUE.pack(_TEXT, 0, _IN_PROGRAM, *place(value)) if isinstance(value, bytes) else _encode(value)
            for value in self._literals
        )
        head = _HEAD.pack(len(self._headers), values, len(self._steps), self._fields)
        return b"".join((head, unset, literals, *(_STEP.pack(*step) for step in self._steps), names, data))

    def _add(self, expression: Expression) -> None:
        match expression:
            case And(parts):
                self._join(parts, _AND, FALSE)
            case Or(parts):
                self._join(parts, _OR, TRUE)
            case Not(inner):
                self._add(inner)
                self._step(_NOT)
            case Compare(test, left, right):
                self._step(_COMPARE, _TESTS[test], self._value(left), self._value(right))
            case In(operand, choices):
                first = self._value(operand)
                numbers = [self._literal(choice.value) for choice in choices]
                self._step(_IN, 0, first, numbers[0], len(numbers))
            case Like(operand, pattern):
                self._step(_LIKE, 0, self._value(operand), self._literal(pattern))
            case IsNull(operand):
                self._step(_IS_NULL, 0, self._value(operand))
            case Condition(Literal(value)):
                self._step(_CONSTANT, UNKNOWN if value is None else int(bool(value)))
            case Condition(operand):
                self._step(_TRUTH, 0, self._value(operand))

    def _join(self, parts: tuple[Expression, ...], operation: int, decisive: int) -> None:
        """Add the parts of AND or OR; when a part has the decisive value, the program skips the remaining parts."""
        self._add(parts[0])
        jumps: list[int] = []
        for part in parts[1:]:
            jumps.append(len(self._steps))
            self._step(_JUMP, decisive)
            self._add(part)
            self._step(operation)
        for number in jumps:
            self._steps[number] = (_JUMP, decisive, 0, 0, len(self._steps))

    def _step(self, operation: int, test: int = 0, first: int = 0, second: int = 0, count: int = 0) -> None:
        self._steps.append((operation, test, first, second, count))

    def _value(self, operand: Operand) -> int:
        match operand:
            case Header(name, _):
                return self._headers[name]
            case FieldOf(field, _):
                return _FIELDS[field]
            case Literal(value):
                return self._literal(value)

    def _literal(self, value: LiteralValue) -> int:
        self._literals.append(value)
        return len(_FIELDS) + len(self._headers) + len(self._literals) - 1


def _encode(value: None | bool | int | float) -> bytes:
    if value is None:
        return bytes(_VALUE.size)
    if isinstance(value, bool):
        return _VALUE.pack(_BOOLEAN, 0, 0, int(value), 0)
    if isinstance(value, float):
        return _FLOAT.pack(_FLOATING, 0, 0, value)
    size = abs(value)
    return _VALUE.pack(_WHOLE, int(value < 0), 0, size & _MASK64, size >> 64)
