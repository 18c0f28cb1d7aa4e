"""Unit tests of headstream.core.filters.parser."""

from __future__ import annotations

import pytest

from headstream.core.filters.filter import parse_filter
from headstream.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        ("", 1, "it is empty"),
        ("attempt >=", 11, "a value after >= is expected, not the end"),
        ("attempt >= AND b", 12, 'Quote a header of this name: "AND"'),
        ("a = 1 b", 7, "AND, OR or the end is expected, not b"),
        ("(a = 1", 7, "\\) is expected to close the parenthesis"),
        ("a IN 1", 6, "\\( is expected after IN"),
        ("a IN (b)", 7, "IN requires a list of values, but b is a name"),
        ("a IN ()", 7, "a value of IN is expected"),
        ("a BETWEEN 1 OR 2", 13, "AND is expected between the two values"),
        ("a LIKE 5", 8, "a pattern in quotes is expected"),
        ("a LIKE 'x!y' ESCAPE '!'", 8, "must be followed by %, _ or itself"),
        ("a LIKE 'x' ESCAPE ''", 19, "one character in quotes"),
        ("a IS 5", 6, "NULL is expected after IS"),
        ("a = 'x", 5, "the quote is not closed"),
        ("a = 5y", 5, "this is not a number"),
        ("a = 1 ; b", 7, "';' is not part of the filter language"),
        ("a-b = 1", 2, "AND, OR or the end is expected, not -"),
        ("_nothing = 1", 1, "a message has no field _nothing"),
        ('"hs.key" = 1', 1, "Write _key"),
        ("1 = 'a'", 5, "a number cannot be compared with a string: 'a'"),
        ("_size > TRUE", 9, "a number cannot be compared with a boolean"),
        ("_state < 'poisoned'", 10, "states have no order"),
        ("_state = 'rotten'", 10, "'rotten' is not a state"),
        ("_timestamp > 'noon'", 14, "'noon' is not a time"),
        ("_id = 'x'", 7, "'x' is not a message id"),
        ("_size LIKE 'x'", 1, "LIKE requires a string, but _size is a number"),
        ("5", 1, "a condition must be true or false, but 5 is a number"),
        ("a = 340282366920938463463374607431768211456", 5, "a whole number must be from -2\\^127 to 2\\^128-1"),
        ("a = 1e999", 5, "exceeds the largest number"),
        ("a = X'0'", 6, "is not hexadecimal digits"),
        ("NOT " * 65 + "a", 257, "more than 64 nested parentheses and NOTs"),
        ('"" = 1', 1, "a header's name must have 1 to 255 bytes"),
        ("a = '\ud800'", 6, "half of a surrogate pair"),
    ],
)
def test_an_error_points_at_the_character(text: str, at: int, what: str) -> None:
    with pytest.raises(InvalidInputError, match=what) as raised:
        parse_filter(text)
    first, _, caret = raised.value.what.splitlines()
    assert first.startswith(f"the filter is invalid at character {at}: ")
    if len(text) < 60:
        assert caret == " " * (at + 1) + "^"


def test_an_error_in_a_long_filter_shows_its_surroundings() -> None:
    text = " OR ".join(f"a = {number}" for number in range(50)) + " OR b = = 1 OR " + " OR ".join(["c = 2"] * 20)
    with pytest.raises(InvalidInputError) as raised:
        parse_filter(text)
    _, shown, caret = raised.value.what.splitlines()
    assert shown.startswith("  ...")
    assert shown.endswith("...")
    assert shown[caret.index("^") - 4 :].startswith("b = = 1")
