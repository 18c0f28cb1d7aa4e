"""What a member of a group asks a server for each message: few requests, since each one can wait behind other clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headstream as hs
from headstream.core.wire.codes import Code
from tests.support.server.served import Running, serving

CYCLES = 10
HOURS_MS = 10_000_000


@pytest.fixture
def running() -> Iterator[Running]:
    with serving() as running:
        yield running


def connect(running: Running) -> hs.Client:
    return hs.connect(f"headstream://iggy:iggy@{running.address}")


def counts(running: Running, *codes: Code) -> list[int]:
    """Return how many requests of each kind the server has answered."""
    assert running.server._tcp is not None
    commands = running.server._tcp.traffic.commands
    return [commands[code].done if code in commands else 0 for code in codes]


REQUESTS = (Code.WAIT_MESSAGES, Code.REPORT_MEMBER, Code.FETCH_MESSAGES, Code.COMMIT_MEMBER)


def test_member_asks_four_times_for_a_message_when_it_has_read_everything(running: Running) -> None:
    with connect(running) as log:
        log.create_topic("shop/orders", partitions=1)
        with (
            log.producer("shop/orders") as producer,
            log.consumer("shop/orders", group="billing", session_timeout_ms=HOURS_MS) as consumer,
        ):

            def cycle(number: int) -> None:
                producer.send(str(number).encode())
                producer.flush()
                assert [message.payload for message in consumer.poll(timeout_ms=60_000)] == [str(number).encode()]
                consumer.commit()

            cycle(0)
            before = counts(running, *REQUESTS)
            for number in range(CYCLES):
                cycle(number)
            after = counts(running, *REQUESTS)
            assert [now - then for now, then in zip(after, before, strict=True)] == [CYCLES] * 4


def test_member_does_not_wait_when_messages_are_known_to_be_there(running: Running) -> None:
    with connect(running) as log:
        log.create_topic("shop/orders", partitions=1)
        with log.producer("shop/orders") as producer:
            for _ in range(3):
                producer.send(b"x" * 900_000)  # about a fetch each
                producer.flush()
        with log.consumer("shop/orders", group="billing", session_timeout_ms=HOURS_MS) as consumer:
            for _ in range(3):
                assert len(consumer.poll(1, timeout_ms=60_000)) == 1
                consumer.commit()
            assert counts(running, Code.WAIT_MESSAGES) == [0]


def test_member_that_has_read_everything_gets_what_the_group_gives_it(running: Running) -> None:
    with connect(running) as log, connect(running) as other:
        log.create_topic("shop/orders", partitions=2)
        with log.consumer("shop/orders", group="billing") as first:
            assert first.poll(timeout_ms=0) == []
            with other.consumer("shop/orders", group="billing") as second:
                while len(first.positions) != 1 or len(second.positions) != 1:
                    first.poll(timeout_ms=20)
                    second.poll(timeout_ms=20)
                with log.producer("shop/orders") as producer:
                    producer.send(b"1", partition=next(iter(first.positions)))
                    producer.flush()
                    assert [message.payload for message in first.poll(timeout_ms=60_000)] == [b"1"]
                    first.commit()
                assert first._reading.has_read_everything
            while len(first.positions) != 2:
                assert first.poll(timeout_ms=50) == []


def test_member_that_has_read_everything_still_holds_what_it_has_handed_out(running: Running) -> None:
    with connect(running) as log:
        log.create_topic("shop/orders", partitions=1)
        with log.producer("shop/orders") as producer:
            producer.send_many([b"1", b"2"])
            producer.flush()
            with log.consumer("shop/orders", group="billing", session_timeout_ms=HOURS_MS) as consumer:
                assert [message.payload for message in consumer.poll(1, timeout_ms=60_000)] == [b"1"]
                assert not consumer._reading.has_read_everything
                assert [message.payload for message in consumer.poll(10, timeout_ms=60_000)] == [b"2"]
                assert not consumer._reading.has_read_everything  # not committed: the group keeps the partition here
                consumer.commit()
                assert consumer._reading.has_read_everything
