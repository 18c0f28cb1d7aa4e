"""Arithmetic of header values: a numeric header can be used in sums and products like its plain value.

The result is a plain int or float, because the sum of two uint8 values may not fit into uint8. Only numbers support arithmetic: a
bool, a string, bytes and a value of an unknown kind raise TypeError.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any


class HeaderArithmetic:
    """Arithmetic operators, applied to `value`."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """The plain Python value."""
        raise NotImplementedError

    def __add__(self, other: object) -> Any:
        return _calculate(operator.add, self, other)

    def __radd__(self, other: object) -> Any:
        return _calculate(operator.add, other, self)

    def __sub__(self, other: object) -> Any:
        return _calculate(operator.sub, self, other)

    def __rsub__(self, other: object) -> Any:
        return _calculate(operator.sub, other, self)

    def __mul__(self, other: object) -> Any:
        return _calculate(operator.mul, self, other)

    def __rmul__(self, other: object) -> Any:
        return _calculate(operator.mul, other, self)

    def __truediv__(self, other: object) -> Any:
        return _calculate(operator.truediv, self, other)

    def __rtruediv__(self, other: object) -> Any:
        return _calculate(operator.truediv, other, self)

    def __floordiv__(self, other: object) -> Any:
        return _calculate(operator.floordiv, self, other)

    def __rfloordiv__(self, other: object) -> Any:
        return _calculate(operator.floordiv, other, self)

    def __mod__(self, other: object) -> Any:
        return _calculate(operator.mod, self, other)

    def __rmod__(self, other: object) -> Any:
        return _calculate(operator.mod, other, self)

    def __neg__(self) -> Any:
        return -_number(self)

    def __pos__(self) -> Any:
        return _number(self)

    def __abs__(self) -> Any:
        return abs(_number(self))

    def __round__(self, digits: int | None = None) -> Any:
        return round(_number(self), digits)


def is_number(value: object) -> bool:
    """Return whether a value is an int or a float, not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _number(header: HeaderArithmetic) -> Any:
    if not is_number(header.value):
        raise TypeError(f"{header!r} is not a number")
    return header.value


def _calculate(calculate: Callable[[Any, Any], Any], left: object, right: object) -> Any:
    """Return the result for plain values; NotImplemented if a header is not a number, so that Python raises TypeError."""
    plain = [each.value if isinstance(each, HeaderArithmetic) else each for each in (left, right)]
    if any(isinstance(each, HeaderArithmetic) and not is_number(each.value) for each in (left, right)):
        return NotImplemented
    return calculate(*plain)
