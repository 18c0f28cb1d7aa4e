"""Messages that are set aside are not delivered unasked, and say why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

import headstream as hs
from headstream.core.model.polling import OffsetOwner
from headstream.errors import InvalidInputError, OffsetOutOfRangeError, PartitionNotFoundError
from tests.behaviour.conftest import Place

Send = Callable[..., None]


def offsets(messages: Sequence[hs.Message]) -> list[int | None]:
    return [message.offset for message in messages]


def test_a_message_set_aside_is_stepped_over_and_shown_to_who_asks(log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(10)))
    log.set_state("shop/orders", 1, [2, 3, 9], "poisoned", reason="no JSON", by="billing")
    log.set_state("shop/orders", 1, 5, "unavailable")
    assert offsets(log.poll("shop/orders", count=100)) == [0, 1, 4, 6, 7, 8]
    assert offsets(log.poll("shop/orders", count=100, states=["poisoned"])) == [2, 3, 9]
    assert offsets(log.poll("shop/orders", count=1, states=["unavailable"])) == [5]
    assert offsets(log.poll("shop/orders", count=100, states=["marked_for_deletion"])) == []
    assert offsets(log.poll("shop/orders", count=100, states=["available", "unavailable"])) == [0, 1, 4, 5, 6, 7, 8]
    assert offsets(log.poll("shop/orders", count=100, states=None)) == list(range(10))


def test_states_says_why_by_whom_and_when_until_a_message_is_available_again(place: Place, log: hs.Client, send: Send) -> None:
    send(b"a", b"b", b"c")
    appended = log.poll("shop/orders", count=1)[0].timestamp or 0
    log.set_state("shop/orders", 1, [0, 2], "poisoned", reason="no JSON", by="billing")
    first, second = log.states("shop/orders", 1)
    author = "iggy" if place.url.startswith(("headstream", "http", "quic")) else "billing"  # on a server it is who is logged in
    assert (first.offset, first.state, first.reason, first.by) == (0, 20, "no JSON", author)
    assert second.offset == 2
    assert first.changed_us >= appended > 0
    log.set_state("shop/orders", 1, [0, 2], "available")
    assert log.states("shop/orders") == []
    assert offsets(log.poll("shop/orders")) == [0, 1, 2]


def test_a_consumers_offset_moves_past_what_is_set_aside(log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(6)))
    log.set_state("shop/orders", 1, [0, 3, 4, 5], "marked_for_deletion")
    with log.consumer("shop/orders", group="g", timeout_ms=0) as consumer:
        assert offsets(list(consumer)) == [1, 2]
    assert log.offsets("shop/orders", "g") == {1: 6}


def test_another_client_sees_what_is_set_aside_at_once(place: Place, log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(3000)))
    other = place.connect()
    assert len(other.poll("shop/orders", count=5000)) == 3000
    log.set_state("shop/orders", 1, range(0, 3000, 2), "poisoned")
    assert offsets(other.poll("shop/orders", count=5000)) == list(range(1, 3000, 2))
    assert len(other.states("shop/orders")) == 1500


def test_what_cannot_be_set_is_refused_and_nothing_is_changed(log: hs.Client, send: Send) -> None:
    send(b"a", b"b")
    with pytest.raises(OffsetOutOfRangeError, match="there is no message at offset 2: use 0 to 1"):
        log.set_state("shop/orders", 1, [0, 2], "poisoned")
    with pytest.raises(InvalidInputError, match="'rotten' is not a message state"):
        log.set_state("shop/orders", 1, [0], "rotten")
    with pytest.raises(PartitionNotFoundError, match="no partition 2"):
        log.set_state("shop/orders", 2, [0], "poisoned")
    with pytest.raises(PartitionNotFoundError, match="no partition 2"):
        log.states("shop/orders", 2)
    assert offsets(log.poll("shop/orders")) == [0, 1]


def test_a_group_that_asks_for_states_gets_the_stricter_of_both(log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(30)))
    log.set_state("shop/orders", 1, 4, "poisoned")
    log.set_state("shop/orders", 1, [1, 5], "marked_for_deletion")
    group, other = OffsetOwner.group("workers"), OffsetOwner.group("other")
    options: dict[str, Any] = {"group": "workers", "mode": "shared", "lease": "1h", "timeout_ms": 0}
    with log.consumer("shop/orders", on_error=hs.Retry(9, "1h", "1h"), dead_letter="shop/dead", **options) as worker:
        leased = {message.offset: message for _ in range(6) for message in worker.poll(1)}
        worker.ack(leased[0])
        worker.retry(leased[2], reason="no")
        worker.reject(leased[3], reason="unwanted")
        worker.defer(leased[6])
        for consumer, expected in (
            (group, "available marked unavailable poisoned poisoned marked unavailable unavailable unavailable available"),
            (other, "available marked available available poisoned marked available available available available"),
        ):
            states = [message.state for message in log.poll("shop/orders", start=0, count=10, states=None, consumer=consumer)]
            assert [state.name.lower().removesuffix("_for_deletion") for state in states] == expected.split()
        chosen: dict[str, Any] = {"start": 0, "count": 100, "consumer": group}
        assert offsets(log.poll("shop/orders", states=["poisoned"], **chosen)) == [3, 4]
        assert offsets(log.poll("shop/orders", states=["unavailable"], **chosen)) == [2, 6, 7, 8]
        assert offsets(log.poll("shop/orders", states=["unavailable"], start=0, count=1, consumer=group)) == [2]
        assert offsets(log.poll("shop/orders", **chosen)) == [0, 2, 3, *range(6, 30)], "available for all groups"
    assert offsets(log.poll("shop/orders", states=["unavailable"], **chosen)) == [2, 6], "the others were released"
