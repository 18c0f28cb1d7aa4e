"""select: the ranges a poll delivers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.broker.messages.page import select
from headstream.core.codec.binary import decode_polled
from tests.support.messages.batches import stored

STATES = st.sampled_from([1, 10, 20, 30, 77])


@settings(max_examples=200)
@given(st.lists(st.tuples(STATES, st.binary(max_size=9)), max_size=20), st.one_of(st.none(), st.frozensets(STATES)))
def test_select_gives_the_messages_of_these_states_in_order(
    messages: list[tuple[int, bytes]], states: frozenset[int] | None
) -> None:
    whole = b"".join(stored(payload, offset=n, state=state) for n, (state, payload) in enumerate(messages))
    parts, count = select(memoryview(whole), len(messages), states)
    expected = [n for n, (state, _) in enumerate(messages) if states is None or state in states]
    assert [message.offset for part in parts for message in decode_polled(part)] == expected
    assert count == len(expected)


def test_select_gives_one_range_when_everything_is_available() -> None:
    whole = memoryview(stored(b"a", offset=0) + stored(b"b", offset=1))
    assert select(whole, 2, frozenset({1})) == ([whole], 2)
    assert select(whole, 2, frozenset({20})) == ([], 0)


def test_select_steps_around_what_is_not_available() -> None:
    messages = [stored(b"%d" % n, offset=n, state=20 if n in (0, 3, 4) else 1) for n in range(7)]
    size = len(messages[0])
    parts, count = select(memoryview(b"".join(messages)), 7, frozenset({1}))
    assert ([len(part) // size for part in parts], count) == ([2, 2], 4)
