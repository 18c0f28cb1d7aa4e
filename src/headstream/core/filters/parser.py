"""Parses a filter by recursive descent; each function implements one rule.

expression  = conjunction {OR conjunction}
conjunction = negation {AND negation}
negation    = NOT negation | predicate
predicate   = "(" expression ")" | operand [test]
test        = (= | <> | != | < | <= | > | >=) operand
            | [NOT] IN "(" literal {"," literal} ")" | [NOT] BETWEEN operand AND operand
            | [NOT] LIKE text [ESCAPE text] | IS [NOT] NULL
operand     = word | name | literal
literal     = [-|+] number | text | TRUE | FALSE | NULL | TIMESTAMP text | X text
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from typing import Final

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
)
from headstream.core.filters.tokens import Token, filter_error, tokenize
from headstream.core.model.reserved import KEY_HEADER, NULL_HEADER
from headstream.errors import InvalidInputError

ANY_CHARACTERS: Final = b"\xff"
ONE_CHARACTER: Final = b"\xfe"
"""The wildcards of a pattern, which are bytes that do not occur in UTF-8."""

_MAX_DEPTH: Final = 64
"""Maximum nesting depth of parentheses and NOT, which require nested calls to the parser and space on the evaluation stack."""
_MAX_NAME_BYTES: Final = 255
_MAX_DIGITS: Final = 40
_LEAST: Final = -(1 << 127)
_MOST: Final = (1 << 128) - 1
_TESTS: Final = {"=": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_KEYWORDS: Final = frozenset(["AND", "OR", "NOT", "IN", "BETWEEN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"])
_CONSTANTS: Final[dict[str, LiteralValue]] = {"NULL": None, "TRUE": True, "FALSE": False}
_FIELDS: Final = {field.value: field for field in Field}
_FIELDS_INSTEAD: Final = {KEY_HEADER: "_key", NULL_HEADER: "_size IS NULL"}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def parse_expression(source: str) -> Expression:
    """Parse the expression of a filter."""
    return _Parser(source).parse()


def parse_time(text: str) -> int:
    """Convert an ISO 8601 time to microseconds since 1970 UTC; a time without a zone is UTC. ValueError if it is not a time."""
    when = datetime.fromisoformat(text.strip())
    return (when.replace(tzinfo=when.tzinfo or UTC) - _EPOCH) // timedelta(microseconds=1)


class _Parser:
    def __init__(self, source: str) -> None:
        self._source = source
        self._tokens = tokenize(source)
        self._number = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._number]

    def _take(self) -> Token:
        token = self._tokens[self._number]
        self._number = min(self._number + 1, len(self._tokens) - 1)
        return token

    def _accept(self, wanted: str) -> bool:
        """Consume the next token if it is a given symbol or keyword."""
        token = self._next
        if token.keyword == wanted or (token.kind == "symbol" and token.text == wanted):
            self._take()
            return True
        return False

    def _expect(self, wanted: str, after: str) -> None:
        if not self._accept(wanted):
            raise self._error(self._next, f"{wanted} is expected {after}, not {self._next.source}")

    def _error(self, token: Token, what: str, advice: str | None = None) -> InvalidInputError:
        return filter_error(self._source, token.at, what, advice=advice)

    def parse(self) -> Expression:
        if self._next.kind == "end":
            raise self._error(self._next, "it is empty", "Write a condition, as in attempt >= 3")
        expression = self._expression()
        if self._next.kind != "end":
            raise self._error(self._next, f"AND, OR or the end is expected, not {self._next.source}")
        return expression

    def _expression(self) -> Expression:
        parts = [self._conjunction()]
        while self._accept("OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _conjunction(self) -> Expression:
        parts = [self._negation()]
        while self._accept("AND"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _negation(self) -> Expression:
        token = self._next
        if not self._accept("NOT"):
            return self._predicate()
        self._deepen(token)
        inner = Not(self._negation())
        self._depth -= 1
        return inner

    def _deepen(self, token: Token) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(token, f"more than {_MAX_DEPTH} nested parentheses and NOTs")

    def _predicate(self) -> Expression:
        token = self._next
        if not self._accept("("):
            return self._test(self._operand("a header, a field or a value"))
        self._deepen(token)
        inner = self._expression()
        self._expect(")", "to close the parenthesis")
        self._depth -= 1
        return self._test(inner.operand) if isinstance(inner, Condition) else inner

    def _test(self, operand: Operand) -> Expression:
        token = self._next
        if token.kind == "symbol" and token.text in _TESTS:
            self._take()
            return Compare(_TESTS[token.text], operand, self._operand(f"a value after {token.text}"))
        if self._accept("IS"):
            negated = self._accept("NOT")
            self._expect("NULL", "after IS NOT" if negated else "after IS")
            return Not(IsNull(operand)) if negated else IsNull(operand)
        negated = self._accept("NOT")
        found = self._test_of_word(operand)
        if found is None:
            if negated:
                raise self._error(self._next, f"IN, BETWEEN or LIKE is expected after NOT, not {self._next.source}")
            return Condition(operand)
        return Not(found) if negated else found

    def _test_of_word(self, operand: Operand) -> Expression | None:
        if self._accept("IN"):
            return In(operand, self._choices())
        if self._accept("BETWEEN"):
            least = self._operand("a value after BETWEEN")
            self._expect("AND", "between the two values of BETWEEN")
            return And((Compare(">=", operand, least), Compare("<=", operand, self._operand("a value after AND"))))
        if self._accept("LIKE"):
            return Like(operand, self._pattern())
        return None

    def _choices(self) -> tuple[Literal, ...]:
        self._expect("(", "after IN")
        choices: list[Literal] = []
        while True:
            token = self._next
            choice = self._operand("a value of IN")
            if not isinstance(choice, Literal):
                raise self._error(token, f"IN requires a list of values, but {token.source} is a name")
            choices.append(choice)
            if not self._accept(","):
                self._expect(")", "after the last value of IN")
                return tuple(choices)

    def _pattern(self) -> bytes:
        """Parse the pattern after LIKE; see Like."""
        token = self._take()
        if token.kind != "text":
            raise self._error(token, f"a pattern in quotes is expected after LIKE, not {token.source}")
        escape = ""
        if self._accept("ESCAPE"):
            escape = self._next.text
            if self._next.kind != "text" or len(escape) != 1:
                raise self._error(self._next, f"one character in quotes is expected after ESCAPE, not {self._next.source}")
            self._take()
        pieces: list[bytes] = []
        characters = iter(token.text)
        for character in characters:
            if character == escape:
                escaped = next(characters, "")
                if escaped not in ("%", "_", escape) or not escaped:
                    raise self._error(token, f"in the pattern, {escape!r} must be followed by %, _ or itself")
                pieces.append(escaped.encode())
            else:
                pieces.append({"%": ANY_CHARACTERS, "_": ONE_CHARACTER}.get(character) or character.encode())
        return b"".join(pieces)

    def _operand(self, expected: str) -> Operand:
        token = self._take()
        match token.kind:
            case "text":
                return Literal(token.text.encode(), token.at, token.source, is_quoted=True)
            case "name":
                return self._header(token)
            case "number":
                return self._number_literal(token, token, "")
            case "symbol" if token.text in "+-" and self._next.kind == "number":
                return self._number_literal(token, self._take(), token.text)
            case "word":
                return self._word(token, expected)
        raise self._error(token, f"{expected} is expected, not {token.source}")

    def _word(self, token: Token, expected: str) -> Operand:
        keyword = token.keyword
        if keyword in _CONSTANTS:
            return Literal(_CONSTANTS[keyword], token.at, token.source)
        if keyword in _KEYWORDS:
            raise self._error(
                token, f"{expected} is expected, not {token.source}", f'Quote a header of this name: "{token.text}"'
            )
        if keyword in ("TIMESTAMP", "X") and self._next.kind == "text":
            return self._typed_literal(token, self._take())
        if not token.text.startswith("_"):
            return self._header(token)
        field = _FIELDS.get(token.text.lower())
        if field is None:
            raise self._error(
                token,
                f"a message has no field {token.text}",
                f'Use one of {", ".join(_FIELDS)}; quote a header of this name: "{token.text}"',
            )
        return FieldOf(field, token.at)

    def _header(self, token: Token) -> Header:
        if not 1 <= len(token.text.encode()) <= _MAX_NAME_BYTES:
            raise self._error(token, f"a header's name must have 1 to {_MAX_NAME_BYTES} bytes")
        if token.text in _FIELDS_INSTEAD:
            raise self._error(token, f"{token.text} is not a header in a filter", f"Write {_FIELDS_INSTEAD[token.text]}")
        return Header(token.text, token.at)

    def _typed_literal(self, word: Token, text: Token) -> Literal:
        source = self._source[word.at : text.at + len(text.source)]
        try:
            value = bytes.fromhex(text.text) if word.keyword == "X" else parse_time(text.text)
        except (ValueError, OverflowError):
            wanted = "hexadecimal digits, as in X'0aff'" if word.keyword == "X" else "a time such as 2026-01-31T12:00:00Z"
            raise self._error(text, f"{text.source} is not {wanted}") from None
        return Literal(value, word.at, source)

    def _number_literal(self, first: Token, number: Token, sign: str) -> Literal:
        text, source = number.text, sign + number.source
        value: int | float
        if text.isdigit():
            value = int(sign + text) if len(text) <= _MAX_DIGITS else _MOST + 1
            if not _LEAST <= value <= _MOST:
                raise self._error(first, "a whole number must be from -2^127 to 2^128-1")
        else:
            value = float(sign + text)
            if math.isinf(value):
                raise self._error(first, f"{source} exceeds the largest number")
        return Literal(value, first.at, source)
