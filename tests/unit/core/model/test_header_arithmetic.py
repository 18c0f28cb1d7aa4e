"""Unit tests of headstream.core.model.header_arithmetic."""

from __future__ import annotations

from typing import Any

import pytest

import headstream as hs


@pytest.mark.parametrize(
    "calculate",
    [
        lambda a: a + 1,
        lambda a: 1 + a,
        lambda a: a - 5,
        lambda a: 5 - a,
        lambda a: a * 2,
        lambda a: 2 * a,
        lambda a: a / 2,
        lambda a: 2 / a,
        lambda a: a // 2,
        lambda a: 20 // a,
        lambda a: a % 2,
        lambda a: 20 % a,
        lambda a: divmod(int(a), 2),
        lambda a: -a,
        lambda a: +a,
        lambda a: abs(-a),
        lambda a: round(a),
        lambda a: round(a, 1),
        lambda a: sum([a, a]),
        lambda a: a + a,
        lambda a: a + 0.5,
    ],
)
@pytest.mark.parametrize(("header", "plain"), [(hs.uint8(255), 255), (hs.int64(-7), -7), (hs.float64(12.0), 12.0)])
def test_numbers_calculate_as_their_plain_value(header: Any, plain: Any, calculate: Any) -> None:
    found = calculate(header)
    assert found == calculate(plain)
    assert type(found) is type(calculate(plain))  # plain: a sum may be beyond the range of its kind


@pytest.mark.parametrize("header", [hs.string("1"), hs.bool(True), hs.raw(b"1"), hs.null()])
def test_arithmetic_raises_for_values_that_are_not_numbers(header: Any) -> None:
    with pytest.raises(TypeError, match="unsupported operand"):
        assert header + 1
    with pytest.raises(TypeError, match="unsupported operand"):
        assert 2.5 * header
    with pytest.raises(TypeError, match="unsupported operand"):
        assert hs.uint8(1) - header
    with pytest.raises(TypeError, match="is not a number"):
        assert -header
    with pytest.raises(TypeError, match="is not a number"):
        abs(header)
    with pytest.raises(TypeError, match="is not a number"):
        round(header)


def test_values_work_where_their_number_does() -> None:
    attempt = hs.uint8(3)
    assert int(attempt) == 3
    assert float(hs.float64(12.5)) == 12.5
    assert f"{attempt:03d} {hs.float64(12.5):.2f} {hs.string('web'):>5}" == "003 12.50   web"
    assert "abcd"[attempt] == "d"
    assert attempt > 2
    assert attempt <= 3
    assert 2 < attempt < hs.int64(4)
    assert sorted([hs.string("b"), hs.string("a")]) == ["a", "b"]
    assert bytes(hs.raw(b"x")) == b"x"
    with pytest.raises(TypeError):
        assert attempt < "x"
    with pytest.raises(TypeError, match="a string header cannot be an index"):
        "abc"[hs.string("1")]
    with pytest.raises(hs.HeaderError, match="cannot be read as a whole number"):
        int(hs.float64(1.5))
