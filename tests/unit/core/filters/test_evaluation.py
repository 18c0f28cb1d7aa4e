"""The language of filters: what is accepted, what each error says, and what values mean."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.core.filters.evaluation import FAILED, FALSE, TRUE, UNKNOWN, evaluate
from headstream.core.filters.filter import parse_filter
from headstream.core.model import constructors as kinds
from headstream.core.model.headers import Headers
from headstream.core.model.message import MessageState, ReceivedMessage

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
        ("_timestamp = '2026-01-31T12:00Z' AND _timestamp > '2026-01-31' AND _timestamp < TIMESTAMP '2026-01-31T13:00:00'", TRUE),
        ("_id = '07000000-0000-0000-0000-000000000000' AND _id = 7 AND _key = 'k' AND _size = 3 AND _OFFSET = 5", TRUE),
        ("(attempt) = 3 AND ((yes))", TRUE),
        ("1 = 1 AND 'a' < 'b' AND TRUE", TRUE),
        ("source = 'it''s' OR source = ''", FALSE),
    ],
)
def test_a_filter_has_the_truth_value_of_sql(text: str, expected: int) -> None:
    assert truth(text) == expected
