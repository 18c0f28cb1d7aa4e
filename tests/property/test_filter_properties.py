"""Filters: compiled, interpreted and on decoded messages they agree; with SQLite too; and no text breaks the parser."""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from headstream.core.codec.batch.stored import filter_scan
from headstream.core.codec.binary import decode_polled, encode_polled
from headstream.core.filters.evaluation import FAILED, TRUE, evaluate
from headstream.core.filters.filter import parse_filter
from headstream.core.model import constructors as kinds
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, MessageState, ReceivedMessage
from headstream.errors import InvalidInputError
from tests.support import kernels
from tests.support.messages.strategies import known_values

INTERPRETED = kernels.interpreted("batch.stored.filter_scan")
NAMES = ["a", "b", "trace.id", "content-type", "ü"]
FIELDS = ["_offset", "_timestamp", "_state", "_id", "_key", "_size"]

numbers = st.one_of(
    st.integers(-5, 5).map(str),
    st.integers(-(1 << 127), (1 << 128) - 1).map(str),
    st.sampled_from([str(sign * (1 << power) + more) for sign in (1, -1) for power in (53, 63, 64, 126) for more in (-1, 0, 1)]),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: repr(value)),
    st.sampled_from(["1e38", "3.5", "-0.0", "9007199254740993.0", "1.7e38", "3.4028236692093846346e38"]),
)
short_texts = st.text(st.sampled_from("ab%_é😀\\\x00'"), max_size=6)
texts = short_texts.map(lambda text: "'" + text.replace("'", "''") + "'")
literals = st.one_of(numbers, texts, st.sampled_from(["TRUE", "FALSE", "NULL", "X'00ff80'", "TIMESTAMP '2026-01-31'"]))
names = st.sampled_from(['"' + name + '"' for name in NAMES] + ["a", "b", "trace.id"])
operands = st.one_of(names, names, st.sampled_from(FIELDS), literals)
tests = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">="])
nots = st.sampled_from(["", "", "NOT "])

predicates = st.one_of(
    st.builds("{} {} {}".format, operands, tests, operands),
    st.builds("{} {}IN ({})".format, operands, nots, st.lists(literals, min_size=1, max_size=4).map(", ".join)),
    st.builds("{} {}BETWEEN {} AND {}".format, operands, nots, operands, operands),
    st.builds("{} {}LIKE {}".format, operands, nots, texts),
    st.builds("{} IS {}NULL".format, operands, nots),
    names,
    st.sampled_from(["TRUE", "FALSE", "NULL"]),
)
expressions = st.recursive(
    predicates,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("{} AND {} OR {}".format, inner, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=6,
)
values = st.one_of(
    known_values,
    st.integers(-5, 5).map(kinds.int8),
    st.integers(-(1 << 127), (1 << 127) - 1).map(kinds.int128),
    st.floats().map(kinds.float64),
    short_texts.map(lambda text: kinds.raw(text.encode())),
    short_texts.filter(bool).map(kinds.string),
)
messages = st.builds(
    lambda pairs, offset, state, time, id, key, payload: Message(
        headers=Headers(pairs), offset=offset, state=MessageState(state), timestamp=time, id=id, key=key, payload=payload
    ),
    st.lists(st.tuples(st.sampled_from([*NAMES, "other"]), values), max_size=5),
    st.integers(0, (1 << 64) - 1),
    st.sampled_from([1, 10, 20, 30, 99]),
    st.sampled_from([0, 1769817600000000, 1 << 62]),
    st.integers(0, (1 << 128) - 1),
    st.none() | short_texts.filter(bool).map(str.encode),
    st.none() | st.binary(max_size=3),
)


def select(module: Any, stored: bytes, program: bytes, policy: int) -> tuple[Any, ...]:
    found = module.filter_stored(stored, program, 1 << 30, 1 << 40, on_failure=policy)
    return bytes(found.data), found.count, found.end, found.scanned_count, found.failed_count, found.is_stopped


@settings(max_examples=70, deadline=None)
@given(expressions, st.lists(messages, min_size=1, max_size=6))
@example(
    "NOT a < 1.5 OR a IN (1, 'x')", [Message(headers=Headers({"a": kinds.uint128(1 << 127)}), offset=1, timestamp=0, payload=b"")]
)
def test_a_filter_selects_the_same_messages_compiled_interpreted_and_decoded(text: str, given_messages: list[Any]) -> None:
    try:
        chosen = parse_filter(text)
    except InvalidInputError:
        return  # a number beside a text, for example
    stored = encode_polled(given_messages)
    decoded = decode_polled(stored)
    truths = [evaluate(chosen.expression, message) for message in decoded]
    for policy in (0, 1):
        wanted = [m for m, truth in zip(decoded, truths, strict=True) if truth == TRUE or (truth == FAILED and policy)]
        expected = encode_polled(wanted), len(wanted), len(stored), len(decoded), truths.count(FAILED), False
        assert select(filter_scan, stored, chosen.program, policy) == expected
        assert select(INTERPRETED, stored, chosen.program, policy) == expected
    before = truths.index(FAILED) if FAILED in truths else len(truths)
    stopped = select(filter_scan, stored, chosen.program, 2)
    assert stopped == select(INTERPRETED, stored, chosen.program, 2)
    assert stopped[1:] == (truths[:before].count(TRUE), len(encode_polled(decoded[:before])), before, 0, before < len(truths))


# -- with SQLite, where every column has one type ------------------------------------------------------------------------

COLUMNS = {"i": "number", "j": "number", "f": "number", "s": "text", "t": "text"}
sql_numbers = st.one_of(
    st.integers(-3, 3).map(str),
    st.sampled_from([str(sign * (1 << power) + more) for sign in (1, -1) for power in (53, 62) for more in (-1, 0, 1)]),
    st.floats(-4, 4).map(repr),
    st.sampled_from(["9007199254740992.0", "4611686018427387904.0"]),
)
sql_texts = st.text(st.sampled_from("aAb%_é"), max_size=4).map(lambda text: f"'{text}'")


def _sql_operand(kind: str) -> st.SearchStrategy[str]:
    own = [name for name, of in COLUMNS.items() if of == kind]
    return st.one_of(st.sampled_from(own), st.sampled_from(own), sql_numbers if kind == "number" else sql_texts, st.just("NULL"))


def _sql_predicates(kind: str) -> st.SearchStrategy[str]:
    operand, literal = _sql_operand(kind), (sql_numbers if kind == "number" else sql_texts) | st.just("NULL")
    return st.one_of(
        st.builds("{} {} {}".format, operand, tests, operand),
        st.builds("{} {}IN ({})".format, operand, nots, st.lists(literal, min_size=1, max_size=3).map(", ".join)),
        st.builds("{} {}BETWEEN {} AND {}".format, operand, nots, operand, operand),
        st.builds("{} IS {}NULL".format, operand, nots),
    )


sql_expressions = st.recursive(
    st.one_of(
        _sql_predicates("number"),
        _sql_predicates("text"),
        st.builds("{} {}LIKE {}".format, st.sampled_from(["s", "t"]), nots, sql_texts),
        st.builds(
            "{} LIKE '{}!%{}' ESCAPE '!'".format, st.sampled_from(["s", "t"]), st.sampled_from("a%_"), st.sampled_from("b%_")
        ),
    ),
    lambda inner: st.one_of(
        st.builds("{} AND {}".format, inner, inner),
        st.builds("{} OR {}".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
        st.builds("NOT {}".format, inner),
    ),
    max_leaves=7,
)
whole = st.none() | st.integers(-3, 3) | st.sampled_from([1 << 53, (1 << 53) + 1, (1 << 62) + 1, -(1 << 62)])
text = st.none() | st.text(st.sampled_from("aAb%_é"), max_size=4).filter(bool)
rows = st.tuples(whole, whole, st.none() | st.floats(-4, 4) | st.just(2.0**53), text, text)


@settings(max_examples=80, deadline=None)
@given(sql_expressions, st.lists(rows, min_size=1, max_size=8))
def test_a_filter_selects_what_sqlite_selects(condition: str, given_rows: list[tuple[Any, ...]]) -> None:
    database = sqlite3.connect(":memory:")
    try:
        database.execute("PRAGMA case_sensitive_like = ON")
        database.execute("CREATE TABLE m (n INTEGER, i INTEGER, j INTEGER, f REAL, s TEXT, t TEXT)")
        database.executemany("INSERT INTO m VALUES (?, ?, ?, ?, ?, ?)", [(n, *row) for n, row in enumerate(given_rows)])
        expected = [n for (n,) in database.execute(f"SELECT n FROM m WHERE {condition} ORDER BY n")]
    finally:
        database.close()
    stored = encode_polled(
        ReceivedMessage(headers=Headers(_header_pairs(row)), offset=n, timestamp=0, payload=b"")
        for n, row in enumerate(given_rows)
    )
    found = filter_scan.filter_stored(stored, parse_filter(condition).program, 100, 1 << 30)
    assert [message.offset for message in decode_polled(found.data)] == expected
    assert found.failed_count == 0


def _header_pairs(row: tuple[Any, ...]) -> list[tuple[str, Any]]:
    typed = (kinds.int64, kinds.int128, kinds.float64, kinds.string, kinds.raw)
    given_values = [
        value.encode() if kind is kinds.raw and value is not None else value for kind, value in zip(typed, row, strict=True)
    ]
    pairs = zip(COLUMNS, typed, given_values, strict=True)
    return [(name, kind(value)) for name, kind, value in pairs if value is not None]


# -- any text ---------------------------------------------------------------------------------------------------------------

WORDS = (
    "a _offset _state _id _x AND OR NOT IN BETWEEN LIKE ESCAPE IS NULL TRUE TIMESTAMP X ( ) , = <> < \" 'x' 1 1.5 1e400 - + 5y ;"
)
words = st.sampled_from([*WORDS.split(), "'", "--", "/*", "0" * 50, "\ud800", "é", "\n", " "])


@settings(max_examples=150, deadline=None)
@given(st.one_of(st.text(), st.lists(words, max_size=14).map(" ".join), st.lists(words, max_size=10).map("".join), expressions))
@example("(" * 2000)
@example("NOT " * 500 + "a")
@example("a" * 3000)
@example("a = '" + "é" * 2000 + "'")
@example(" AND ".join(["a=1"] * 290))
@example("_timestamp = '9999-12-31T23:59:59-23:59'")
@example("_state = 'unknown(²)'")
@example("_id = '²'")
@example("TIMESTAMP '0001-01-01T00:00:00+23:59' = a")
def test_any_text_is_a_filter_or_an_error_at_a_character(text: str) -> None:
    with suppress(InvalidInputError):
        chosen = parse_filter(text)
        assert filter_scan.filter_stored(b"", chosen.program, 1, 1).count == 0
