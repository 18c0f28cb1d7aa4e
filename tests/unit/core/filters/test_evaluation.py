"""The language of filters: what is accepted, what each error says, and what values mean."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from headstream.core.filters.evaluation import FAILED, FALSE, TRUE, UNKNOWN, evaluate
from headstream.core.filters.filter import check_states, parse_filter
from headstream.core.model import constructors as kinds
from headstream.core.model.headers import Headers
from headstream.core.model.message import MessageState, ReceivedMessage
from headstream.errors import InvalidInputError, InvalidOptionError

HEADERS: list[tuple[str, Any]] = [
    ("attempt", kinds.uint8(9)),
    ("attempt", kinds.uint8(3)),
    ("source", "web"),
    ("raw", b"web"),
    ("big", kinds.uint128((1 << 128) - 1)),
    ("low", kinds.int128(-(1 << 127))),
    ("half", kinds.float32(0.5)),
    ("nan", kinds.float64(float("nan"))),
    ("yes", True),
    ("nothing", kinds.null()),
    ("letter", kinds.char("é")),
    ("_state", "mine"),
    ("content-type", "json"),
    ("in", 1),
]


def truth(text: str) -> int:
    message = ReceivedMessage(
        payload=b"abc",
        headers=Headers(HEADERS),
        key=b"k",
        id=7,
        offset=5,
        timestamp=1_769_860_800_000_000,
        state=MessageState.POISONED,
        topic="s/t",
        partition=1,
    )
    return evaluate(parse_filter(text).expression, message)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("attempt = 3", TRUE),
        ("attempt = 3.0 and 3 = attempt", TRUE),
        ("Attempt = 3", UNKNOWN),
        ("source = 'web' AND raw = 'web' AND source = raw", TRUE),
        ("source = X'776562'", TRUE),
        ("big > 340282366920938463463374607431768211454", TRUE),
        ("big > 1e38 AND big < 3.5e38 AND low = -170141183460469231731687303715884105728", TRUE),
        ("half = .5 AND half BETWEEN 0 AND 1 AND half NOT BETWEEN 1 AND 2", TRUE),
        ("nan = nan", FALSE),
        ("nan <> nan AND nan <> 1", TRUE),
        ("yes", TRUE),
        ("NOT yes OR yes = FALSE", FALSE),
        ("nothing IS NULL AND missing IS NULL AND source IS NOT NULL", TRUE),
        ("nothing = 1", UNKNOWN),
        ("nothing = 1 OR yes", TRUE),
        ("nothing = 1 AND yes", UNKNOWN),
        ("NOT (nothing = 1)", UNKNOWN),
        ("letter = 'é' AND letter LIKE '_'", TRUE),
        ("source LIKE 'w%' AND source LIKE '%b' AND source LIKE '_e_' AND source NOT LIKE 'W%'", TRUE),
        ("source LIKE 'w'", FALSE),
        ("attempt IN (1, 2, NULL)", UNKNOWN),
        ("attempt IN (1, 3, NULL)", TRUE),
        ("attempt NOT IN (1, 2)", TRUE),
        ("attempt = 'three'", FAILED),
        ("attempt = 'three' OR yes", TRUE),
        ("attempt = 'three' AND NOT yes", FALSE),
        ("attempt = 'three' OR NOT yes", FAILED),
        ("attempt = 'three' OR missing = 1", FAILED),
        ("attempt LIKE '3'", FAILED),
        ("source", FAILED),
        ("missing", UNKNOWN),
        ("NULL", UNKNOWN),
        ('"_state" = \'mine\' AND "content-type" = \'json\' AND "in" = 1', TRUE),
        ("_state = 'poisoned' AND _state <> 'available' AND _state IN ('poisoned', 'unknown(99)') AND _state = 20", TRUE),
        (
            "_timestamp = '2026-01-31T12:00Z' AND _timestamp > '2026-01-31' AND _timestamp < TIMESTAMP '2026-01-31T13:00:00'",
            TRUE,
        ),
        ("_id = '07000000-0000-0000-0000-000000000000' AND _id = 7 AND _key = 'k' AND _size = 3 AND _OFFSET = 5", TRUE),
        ("(attempt) = 3 AND ((yes))", TRUE),
        ("1 = 1 AND 'a' < 'b' AND TRUE", TRUE),
        ("source = 'it''s' OR source = ''", FALSE),
    ],
)
def test_a_filter_has_the_truth_value_of_sql(text: str, expected: int) -> None:
    assert truth(text) == expected


@pytest.mark.parametrize(
    ("text", "at", "what"),
    [
        ("", 1, "it is empty"),
        ("attempt >=", 11, "a value after >= is expected, not the end"),
        ("attempt >= AND b", 12, 'A header of this name is quoted: "AND"'),
        ("a = 1 b", 7, "AND, OR or the end is expected, not b"),
        ("(a = 1", 7, "\\) is expected to close the parenthesis"),
        ("a IN 1", 6, "\\( is expected after IN"),
        ("a IN (b)", 7, "IN has a list of values, and b is a name"),
        ("a IN ()", 7, "a value of IN is expected"),
        ("a BETWEEN 1 OR 2", 13, "AND is expected between the two values"),
        ("a LIKE 5", 8, "a pattern in quotes is expected"),
        ("a LIKE 'x!y' ESCAPE '!'", 8, "followed by neither % nor _ nor itself"),
        ("a LIKE 'x' ESCAPE ''", 19, "one character in quotes"),
        ("a IS 5", 6, "NULL is expected after IS"),
        ("a = 'x", 5, "the quote is not closed"),
        ("a = 5y", 5, "this is not a number"),
        ("a = 1 ; b", 7, "';' is not part of the filter language"),
        ("a-b = 1", 2, "AND, OR or the end is expected, not -"),
        ("_nothing = 1", 1, "a message has no field _nothing"),
        ('"hs.key" = 1', 1, "Write _key"),
        ("1 = 'a'", 5, "a number is compared with a text, 'a'"),
        ("_size > TRUE", 9, "a number is compared with a boolean"),
        ("_state < 'poisoned'", 10, "states have no order"),
        ("_state = 'rotten'", 10, "'rotten' is not a state"),
        ("_timestamp > 'noon'", 14, "'noon' is not a time"),
        ("_id = 'x'", 7, "'x' is not a message id"),
        ("_size LIKE 'x'", 1, "LIKE compares texts, and _size is a number"),
        ("5", 1, "a condition is true or false, and 5 is a number"),
        ("a = 340282366920938463463374607431768211456", 5, "a whole number is from -2\\^127 to 2\\^128-1"),
        ("a = 1e999", 5, "beyond the largest number"),
        ("a = X'0'", 6, "is not bytes as hexadecimal digits"),
        ("NOT " * 65 + "a", 257, "more than 64 parentheses and NOTs"),
        ('"" = 1', 1, "a header's name has 1 to 255 bytes"),
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


def test_a_filter_is_bounded() -> None:
    with pytest.raises(InvalidInputError, match="at most 2048 bytes, this one 2049"):
        parse_filter("a" * 2049)


def test_a_filter_says_what_it_reads_and_survives_a_pickle() -> None:
    found = parse_filter("b = 1 OR a IN (1) OR b = _size AND _offset > 1", "raise")
    assert (found.headers, found.fields) == (("b", "a"), ("_size", "_offset"))
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_filter_of_states_needs_other_states_than_available() -> None:
    found = parse_filter("_state = 'poisoned'")
    with pytest.raises(InvalidOptionError, match="only available messages"):
        check_states(found, frozenset({1}))
    assert check_states(found, None) is found
    assert check_states(parse_filter("a = 1"), frozenset({1})).text == "a = 1"
