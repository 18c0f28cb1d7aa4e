"""Filter: a parsed filter, with its program and its policy for messages that it cannot be applied to."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Final

from headstream.core.codec.batch.results import Matches
from headstream.core.codec.batch.stored.filter_scan import filter_stored
from headstream.core.codec.binary import decode_polled
from headstream.core.codec.buffer import BytesLike
from headstream.core.filters.evaluation import FAILED, TRUE, evaluate, find_failure
from headstream.core.filters.expression import And, Expression, Field, FieldOf, Header, In, Literal, operands_of
from headstream.core.filters.parser import parse_expression
from headstream.core.filters.program import compile_expression
from headstream.core.filters.pruning import MessagesSummary, may_match
from headstream.core.filters.typed import apply_types
from headstream.core.model.message import MessageState, ReceivedMessage
from headstream.errors import HeaderError, InvalidInputError, InvalidOptionError

_AVAILABLE: Final = frozenset({MessageState.AVAILABLE.value})


class OnFilterError(enum.Enum):
    """Policy for a message for which a filter compares values that cannot be compared, as a number with a text."""

    SKIP = "skip"
    DELIVER = "deliver"
    RAISE = "raise"


_POLICIES: Final = [each.value for each in OnFilterError]
_CODES: Final = {OnFilterError.SKIP: 0, OnFilterError.DELIVER: 1, OnFilterError.RAISE: 2}


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter. Created by parse_filter()."""

    text: str
    on_error: OnFilterError
    expression: Expression = field(compare=False, repr=False)
    program: bytes = field(compare=False, repr=False)

    @property
    def headers(self) -> tuple[str, ...]:
        """The names of the headers that it reads, in order."""
        return tuple(dict.fromkeys(each.name for each in operands_of(self.expression) if isinstance(each, Header)))

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields that it reads, in order."""
        return tuple(dict.fromkeys(each.field.value for each in operands_of(self.expression) if isinstance(each, FieldOf)))

    def with_states(self, states: frozenset[int] | None) -> Filter:
        """Return a filter that matches only messages in the given states, and cannot fail for other messages."""
        if states is None:
            return self
        codes = tuple(Literal(code, 0, str(code)) for code in sorted(states))
        expression = And((In(FieldOf(Field.STATE, 0), codes), self.expression))
        return replace(self, expression=expression, program=compile_expression(expression))

    def select(self, stored: BytesLike, count: int, size_bytes: int) -> Matches:
        """Return the messages that match: at most `count`, approximately `size_bytes`, at least one."""
        return filter_stored(stored, self.program, count, size_bytes, on_failure=_CODES[self.on_error])

    def may_match(self, messages: MessagesSummary) -> bool:
        """Return whether it can match, or fail for, a message of a summary."""
        return may_match(self.expression, messages)

    def examine(self, message: ReceivedMessage) -> tuple[bool, bool]:
        """Return whether a decoded message is delivered, and whether the filter cannot be applied to it (or HeaderError)."""
        truth = evaluate(self.expression, message)
        if truth != FAILED:
            return truth == TRUE, False
        if self.on_error is OnFilterError.RAISE:
            raise self.failure(message)
        return self.on_error is OnFilterError.DELIVER, True

    def failure_of(self, stored: BytesLike) -> HeaderError:
        """Return the error for the first of the given stored messages, to which the filter cannot be applied."""
        return self.failure(decode_polled(filter_stored(stored, _ALL.program, 1, 1).data)[0])

    def failure(self, message: ReceivedMessage) -> HeaderError:
        """Return the error for a message that the filter cannot be applied to."""
        return HeaderError(
            f"the filter cannot be applied to the message at offset {message.offset}: "
            f"{find_failure(self.expression, message)} which cannot be compared",
            where=f"offset {message.offset}",
            advice=f"Continue at offset {message.offset + 1}, or set on_filter_error to skip or deliver",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_filter, (self.text, self.on_error.value)


def parse_filter(text: str, on_error: str = "skip") -> Filter:
    """Return the filter of a text.

    Args:
        text: A condition, as in `attempt >= 3 AND source IN ('web', 'app')`.
        on_error: `skip`, `deliver` or `raise`: how a message is treated whose values cannot be compared.

    Raises:
        InvalidInputError: the text is not a filter; the error names the character.
        InvalidOptionError: `on_error` has another value.
    """
    if on_error not in _POLICIES:
        raise InvalidOptionError(f"on_filter_error must be one of {', '.join(_POLICIES)}, not {on_error!r}")
    if not isinstance(text, str):
        raise InvalidInputError(f"a filter must be a string, not {text!r}", advice="Pass a string such as 'attempt >= 3'")
    return _parse(text, on_error)


@lru_cache(maxsize=256)
def _parse(text: str, on_error: str) -> Filter:
    expression = apply_types(parse_expression(text), text)
    return Filter(text, OnFilterError(on_error), expression, compile_expression(expression))


_ALL: Final = parse_filter("TRUE")
"""Matches every message."""


def check_states(found: Filter, states: frozenset[int] | None) -> Filter:
    """Return a filter for messages in states (None for all); InvalidOptionError if it names `_state` but gets only available
    messages."""
    if states == _AVAILABLE and Field.STATE.value in found.fields:
        raise InvalidOptionError(
            "the filter names _state, but only available messages are requested",
            advice="Set states=, for example states=None for all states",
        )
    return found
