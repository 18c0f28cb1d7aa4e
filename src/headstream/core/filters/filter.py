"""Filter: a parsed filter with its program, and the policy for messages to which it cannot be applied."""

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
    """The handling of a message to which a filter cannot be applied, for example because it compares a number with a string."""

    SKIP = "skip"
    DELIVER = "deliver"
    RAISE = "raise"


_POLICIES: Final = [each.value for each in OnFilterError]
_CODES: Final = {OnFilterError.SKIP: 0, OnFilterError.DELIVER: 1, OnFilterError.RAISE: 2}


@dataclass(frozen=True, slots=True)
class Filter:
    """A parsed filter, created by parse_filter()."""

    text: str
    on_error: OnFilterError
    expression: Expression = field(compare=False, repr=False)
    program: bytes = field(compare=False, repr=False)

    @property
    def headers(self) -> tuple[str, ...]:
        """The names of the headers that the filter reads, in order."""
        return tuple(dict.fromkeys(each.name for each in operands_of(self.expression) if isinstance(each, Header)))

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields that the filter reads, in order."""
        return tuple(dict.fromkeys(each.field.value for each in operands_of(self.expression) if isinstance(each, FieldOf)))

    def with_states(self, states: frozenset[int] | None) -> Filter:
        """Return a filter that matches only messages in the given states, and does not fail for messages in other states."""
        if states is None:
            return self
        codes = tuple(Literal(code, 0, str(code)) for code in sorted(states))
        expression = And((In(FieldOf(Field.STATE, 0), codes), self.expression))
        return replace(self, expression=expression, program=compile_expression(expression))

    def select(self, stored: BytesLike, count: int, size_bytes: int) -> Matches:
        """Return matching messages: at most `count` and approximately `size_bytes`, but at least one if any message matches."""
        return filter_stored(stored, self.program, count, size_bytes, on_failure=_CODES[self.on_error])

    def may_match(self, messages: MessagesSummary) -> bool:
        """Return whether the filter can match or fail for a message of the summarized messages."""
        return may_match(self.expression, messages)

    def examine(self, message: ReceivedMessage) -> tuple[bool, bool]:
        """Return whether to deliver a decoded message, and whether the filter could not be applied; can raise HeaderError."""
        truth = evaluate(self.expression, message)
        if truth != FAILED:
            return truth == TRUE, False
        if self.on_error is OnFilterError.RAISE:
            raise self.failure(message)
        return self.on_error is OnFilterError.DELIVER, True

    def failure_of(self, stored: BytesLike) -> HeaderError:
        """Return the error for the first stored message, to which the filter cannot be applied."""
        return self.failure(decode_polled(filter_stored(stored, _ALL.program, 1, 1).data)[0])

    def failure(self, message: ReceivedMessage) -> HeaderError:
        """Return the error for a message to which the filter cannot be applied."""
        return HeaderError(
            f"the filter cannot be applied to the message at offset {message.offset}: "
            f"{find_failure(self.expression, message).rstrip(',')}, which cannot be compared",
            where=f"offset {message.offset}",
            advice=f"Continue at offset {message.offset + 1}, or set on_filter_error to skip or deliver",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return parse_filter, (self.text, self.on_error.value)


def parse_filter(text: str, on_error: str = "skip") -> Filter:
    """Parse a filter.

    Args:
        text: A condition, for example `attempt >= 3 AND source IN ('web', 'app')`.
        on_error: What to do with a message whose values cannot be compared: `skip`, `deliver` or `raise`.

    Raises:
        InvalidInputError: the text is not a valid filter; the error shows the position.
        InvalidOptionError: `on_error` is invalid.
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
    """Return the filter; InvalidOptionError if it names `_state` although `states` selects only available messages."""
    if states == _AVAILABLE and Field.STATE.value in found.fields:
        raise InvalidOptionError(
            "the filter uses _state, but only available messages are requested",
            advice="Set states=, for example states=None for all states",
        )
    return found
