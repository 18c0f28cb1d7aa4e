"""Hostile delivery: it changes order, number and grouping as it says, and loses nothing."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.errors import InvalidInputError
from headstream.testing import SourceDatabase, delay, repeat, shuffle, split

SEEDS = st.integers(0, 2**32)


@given(st.integers(0, 200), SEEDS, st.none() | st.integers(0, 50))
@settings(max_examples=100)
def test_shuffle_loses_nothing_and_keeps_to_its_window(count: int, seed: int, window: int | None) -> None:
    shuffled = shuffle(range(count), seed=seed, window=window)
    assert sorted(shuffled) == list(range(count))
    assert shuffled == shuffle(range(count), seed=seed, window=window)
    for place, number in enumerate(shuffled):
        overtaken = [later for later in shuffled[place + 1 :] if later < number]
        assert window is None or all(number - later <= window for later in overtaken)


def test_shuffle_changes_the_order() -> None:
    numbers = list(range(1000))
    assert shuffle(numbers, seed=1, window=0) == numbers
    near, far = shuffle(numbers, seed=1, window=5), shuffle(numbers, seed=1)
    assert near != numbers
    assert max(abs(place - number) for place, number in enumerate(near)) <= 5
    assert max(abs(place - number) for place, number in enumerate(far)) > 500
    assert far != shuffle(numbers, seed=2)


@given(st.integers(0, 200), SEEDS, st.floats(0, 1))
@settings(max_examples=100)
def test_repeat_adds_later_copies_and_keeps_the_order(count: int, seed: int, fraction: float) -> None:
    repeated = repeat(range(count), seed=seed, fraction=fraction)
    assert list(dict.fromkeys(repeated)) == list(range(count))
    assert set(Counter(repeated).values()) <= {1, 2}


def test_repeat_repeats_the_share_it_is_told() -> None:
    assert len(repeat(range(10_000), seed=1, fraction=0.1)) == pytest.approx(11_000, abs=200)
    assert Counter(repeat(range(10), seed=1, fraction=1.0)) == Counter(dict.fromkeys(range(10), 2))
    assert repeat(range(10), seed=1, fraction=0.0) == list(range(10))


@given(st.integers(0, 200), st.integers(1, 20), st.none() | SEEDS)
@settings(max_examples=100)
def test_split_keeps_everything_in_order(count: int, pieces: int, seed: int | None) -> None:
    batches = split(range(count), pieces, seed=seed)
    assert len(batches) == pieces
    assert [number for batch in batches for number in batch] == list(range(count))
    if seed is None:
        assert max(map(len, batches)) - min(map(len, batches)) <= 1


def test_delay_moves_one_table_back() -> None:
    messages = list(SourceDatabase(1, rows=5, transactions=20).capture())
    numbered = {id(message): place for place, message in enumerate(messages)}
    behind = delay(messages, "SHOP.orders")
    orders = [message for message in messages if message.table == "SHOP.orders"]
    others = [message for message in messages if message.table != "SHOP.orders"]
    assert behind == others + orders
    metadata = delay(messages, "SHOP.orders", by=30, role="metadata")
    assert Counter(map(id, metadata)) == Counter(map(id, messages))
    assert [numbered[id(message)] for message in metadata].index(1) == 31
    assert [m for m in metadata if m is not messages[1]] == [m for m in messages if m is not messages[1]]
    assert delay(messages, "SHOP.orders", by=0) == messages


def test_delivery_refuses_numbers_out_of_range() -> None:
    with pytest.raises(InvalidInputError):
        shuffle([1], seed=1, window=-1)
    with pytest.raises(InvalidInputError):
        repeat([1], seed=1, fraction=1.1)
    with pytest.raises(InvalidInputError):
        split([1], 0)
    with pytest.raises(InvalidInputError):
        delay([], "SHOP.orders", by=-1)
