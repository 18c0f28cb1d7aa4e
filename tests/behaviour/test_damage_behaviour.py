"""What a client sees of damaged messages: an error with topic, partition and offsets, and a way to go on behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

import headstream as hs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log of three sends of three messages; the payload of offset 4 is damaged."""
    root = tmp_path / "log"
    with hs.connect(root.as_uri()) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            for number in range(9):
                producer.send(b"order %d" % number)
                if number % 3 == 2:
                    producer.flush()
    (path,) = root.glob("streams/*/*/1/*.log")
    data = bytearray(path.read_bytes())
    data[data.index(b"order 4")] ^= 1
    path.write_bytes(data)
    return root


def test_poll_gives_what_is_before_damage_then_says_where_it_is(root: Path) -> None:
    with hs.connect(root.as_uri()) as log:
        before = log.poll("shop/orders", start=0, count=100)
        assert [message.offset for message in before] == [0, 1, 2]
        with pytest.raises(hs.CorruptSendError, match=r"messages of shop/orders, partition 1, .* offsets 3 to 5 ") as caught:
            log.poll("shop/orders", start=3, count=100)
        assert "read from offset 6" in str(caught.value)
        assert (caught.value.partition, caught.value.from_offset, caught.value.until_offset) == (1, 3, 6)
        after = log.poll("shop/orders", start=caught.value.until_offset, count=100)
        assert [message.offset for message in after] == [6, 7, 8]


def test_consumer_goes_on_behind_damage_when_it_seeks(root: Path) -> None:
    seen: list[int | None] = []
    with hs.connect(root.as_uri()) as log, log.consumer("shop/orders", name="billing", start="first") as consumer:
        for _ in range(10):
            try:
                seen += [message.offset for message in consumer.poll(timeout_ms=0)]
            except hs.CorruptSendError as error:
                consumer.seek(error.partition, error.until_offset)
    assert seen == [0, 1, 2, 6, 7, 8]


def test_a_damaged_partition_does_not_hold_up_the_others(root: Path) -> None:
    with hs.connect(root.as_uri()) as log:
        log.topic("shop/orders")
        log.create_partitions("shop/orders", 1)
        with log.producer("shop/orders") as producer:
            for number in range(3):
                producer.send(b"more %d" % number, partition=2)
        with log.consumer("shop/orders", group="billing") as consumer:
            seen: list[tuple[int | None, int | None]] = []
            errors: list[int] = []
            for _ in range(12):
                try:
                    seen += [(message.partition, message.offset) for message in consumer.poll(count=1)]
                except hs.CorruptSendError as error:
                    errors.append(error.partition)
            assert sorted(seen, key=str) == [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2)]
            assert errors == [1] * 6, "once when it is met, and whenever there is nothing else"
            consumer.seek(1, 6)
            assert [message.offset for message in consumer.poll()] == [6, 7, 8]
            consumer.commit()
        assert log.offsets("shop/orders", "billing") == {1: 9, 2: 3}
