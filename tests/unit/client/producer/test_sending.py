"""Sending: batches by partition, size, count and time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.client.producer.sending import Batch, Sending, SendingOptions
from headstream.core.model.partitioning import partition_of
from headstream.core.model.topology import Limits


def sending(partitions: int = 1, limits: Limits = Limits.WIDE, **options: float) -> Sending:
    return Sending(range(1, partitions + 1), limits, SendingOptions(**options), Owner())  # type: ignore[arg-type]


class Owner:
    """Nobody asks for receipts here."""

    def wait_for(self, batch: Batch, timeout_s: float | None) -> bool:
        raise AssertionError

    def watch(self, batch: Batch, callback: Callable[[], object] | None) -> None:
        raise AssertionError


def fills(core: Sending, message: bytes, now_us: int = 0) -> bool:
    """Return whether a batch is full by a message."""
    core.add(message, 0, None, None, now_us)
    return core.is_due


def take_all(core: Sending, now_us: int) -> list[Batch]:
    taken = []
    while (batch := core.take(now_us)) is not None:
        taken.append(batch)
        core.remove_finished(batch)
    return taken


def shapes(batches: list[Batch]) -> list[tuple[int, bytes]]:
    return [(batch.partition, bytes(batch.data)) for batch in batches]


def test_take_gives_nothing_before_the_linger_is_over() -> None:
    core = sending(linger_ms=5)
    assert core.next_due_us() is None
    assert not fills(core, b"a", 1000)
    assert not fills(core, b"b", 3000)
    assert core.next_due_us() == 6000
    assert core.take(5999) is None
    assert shapes(take_all(core, 6000)) == [(1, b"ab")]
    assert core.next_due_us() is None


def test_add_makes_a_batch_due_by_count() -> None:
    core = sending(batch_count=2)
    assert [fills(core, bytes([n])) for n in range(5)] == [False, True, False, True, False]
    assert [len(batch.data) for batch in take_all(core, 0)] == [2, 2]


def test_add_makes_a_batch_due_by_bytes_and_never_fills_it_beyond() -> None:
    core = sending(batch_bytes=10)
    assert not fills(core, b"x" * 6)
    assert fills(core, b"y" * 5)
    assert fills(core, b"z" * 50)
    assert [batch.count for batch in take_all(core, 0)] == [1, 1, 1]


def test_add_makes_everything_due_when_there_is_no_linger() -> None:
    core = sending(linger_ms=0)
    assert fills(core, b"a")
    assert fills(core, b"b")
    assert shapes(take_all(core, 0)) == [(1, b"a"), (1, b"b")]


def test_messages_without_key_go_to_all_partitions_in_turn_a_batch_at_a_time() -> None:
    core = sending(3, batch_count=2)
    for number in range(14):
        core.add(b"%x" % number, 0, None, None, 0)
    assert shapes(take_all(core, 0)) == [(1, b"01"), (2, b"23"), (3, b"45"), (1, b"67"), (2, b"89"), (3, b"ab"), (1, b"cd")]


def test_the_turn_passes_on_when_a_batch_has_lingered() -> None:
    core = sending(3, linger_ms=1)
    partitions = []
    for number in range(6):
        core.add(b"x", 0, None, None, number * 1000)
        partitions += [batch.partition for batch in take_all(core, (number + 1) * 1000)]
    assert partitions == [1, 2, 3, 1, 2, 3]


def test_a_message_that_does_not_fit_goes_on_to_the_next_in_turn() -> None:
    core = sending(2, batch_bytes=10)
    core.add(b"a" * 7, 0, None, None, 0)
    core.add(b"b" * 7, 0, None, None, 0)
    core.add(b"c" * 7, 0, None, 2, 0)
    assert shapes(take_all(core, 10**9)) == [(1, b"a" * 7), (2, b"b" * 7), (2, b"c" * 7)]


@pytest.mark.parametrize(("key", "partition"), [((1).to_bytes(4, "little"), 2), ((2).to_bytes(4, "little"), 3), (b"key-1", 1)])
def test_keys_choose_the_partition_that_iggy_chooses(key: bytes, partition: int) -> None:
    core = sending(3)
    core.add(b"x", 0, key, None, 0)
    core.close_all()
    assert [batch.partition for batch in take_all(core, 0)] == [partition]


def test_a_partition_that_is_asked_for_wins_over_the_key() -> None:
    core = sending(3)
    core.add(b"x", 0, b"key-1", 3, 0)
    core.close_all()
    assert [batch.partition for batch in take_all(core, 0)] == [3]


def test_batches_keep_below_the_limits_of_a_send_of_an_iggy_topic() -> None:
    core = sending(limits=Limits.IGGY, batch_bytes=64 << 20, buffer_bytes=1 << 30)
    for _ in range(5):
        core.add(b"x" * 4_000_000, 40_000, None, None, 0)
    core.close_all()
    assert [(batch.count, batch.header_bytes) for batch in take_all(core, 0)] == [(2, 80_000), (2, 80_000), (1, 40_000)]
    core = sending(limits=Limits.IGGY)
    for _ in range(5):
        core.add(b"x", 40_000, None, None, 0)
    core.close_all()
    assert [batch.count for batch in take_all(core, 0)] == [2, 2, 1]


def test_is_full_until_something_is_settled_and_makes_open_batches_due() -> None:
    core = sending(2, linger_ms=1000, buffer_bytes=10)
    core.add(b"x" * 6, 0, None, 1, 0)
    assert not core.is_full
    core.add(b"y" * 6, 0, None, 2, 0)
    assert core.is_full
    batch = core.take(0)
    assert batch is not None
    assert core.is_full
    core.remove_finished(batch)
    assert not core.is_full
    assert core.take(0) is None


def test_take_gives_the_same_batch_until_it_is_settled() -> None:
    core = sending(linger_ms=0)
    core.add(b"a", 0, None, None, 0)
    core.add(b"b", 0, None, None, 0)
    first = core.take(0)
    assert core.take(0) is first
    assert core.pending_count == 2
    assert first is not None
    core.remove_finished(first)
    second = core.take(0)
    assert second is not first
    assert core.pending_count == 1


def test_is_settled_up_to_what_was_there_at_a_flush() -> None:
    core = sending(2, linger_ms=1000)
    core.add(b"a", 0, None, 1, 0)
    core.add(b"b", 0, None, 2, 0)
    last = core.close_all()
    core.add(b"c", 0, None, 1, 0)
    assert not core.is_done(last)
    assert len(take_all(core, 0)) == 2
    assert core.is_done(last)
    assert core.pending_count == 1
    assert core.is_done(0)


@settings(max_examples=200)
@given(
    st.integers(1, 4),
    st.lists(
        st.tuples(
            st.integers(1, 12),  # bytes
            st.one_of(st.none(), st.binary(max_size=2)),  # key
            st.one_of(st.none(), st.integers(1, 4)),  # partition
            st.integers(0, 3),  # milliseconds that pass
            st.booleans(),  # whether what is due is sent then
        ),
        max_size=60,
    ),
    st.sampled_from([0.0, 2.0]),
)
def test_every_message_goes_once_in_order_within_its_partition(
    partitions: int, steps: list[tuple[int, bytes | None, int | None, int, bool]], linger_ms: float
) -> None:
    core = sending(partitions, linger_ms=linger_ms, batch_bytes=20, batch_count=4)
    asked: dict[int, list[bytes]] = defaultdict(list)
    sent: list[tuple[int, bytes]] = []
    now_us, free = 0, []
    for number, (size, key, partition, pause_ms, sends) in enumerate(steps):
        now_us += pause_ms * 1000
        message = bytes([number]) * size
        if partition is not None:
            partition = min(partition, partitions)
        core.add(message, 0, key, partition, now_us)
        if partition is not None or key is not None:
            asked[partition or partition_of(key or b"", partitions)].append(message)
        else:
            free.append(message)
        if sends:
            sent += shapes(take_all(core, now_us))
    core.close_all()
    sent += shapes(take_all(core, now_us))
    assert core.pending_count == 0
    assert all(len(data) <= 20 for _, data in sent)
    by_partition = {p: b"".join(data for q, data in sent if q == p) for p in range(1, partitions + 1)}
    everything = b"".join(by_partition.values())
    assert sorted(everything) == sorted(b"".join(bytes([n]) * step[0] for n, step in enumerate(steps)))
    for partition, data in by_partition.items():
        assert list(data) == sorted(data)
        assert all(message in data for message in asked[partition])
