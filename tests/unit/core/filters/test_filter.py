"""Unit tests of headstream.core.filters.filter."""

from __future__ import annotations

import pickle

import pytest

from headstream.core.filters.filter import check_states, parse_filter
from headstream.errors import InvalidInputError, InvalidOptionError


def test_a_filter_is_bounded() -> None:
    with pytest.raises(InvalidInputError, match="at most 2048 bytes, not 2049"):
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
