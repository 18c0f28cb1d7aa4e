"""Consumers of a group share partitions: each is read by one, none is left, and what is committed comes to nobody again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import headstream as hs
from tests.behaviour.conftest import Place, at, numbers
from tests.support.waiting import wait_until

Send = Callable[..., None]


def fill(send: Send, count: int, *, topic: str = "shop/carts", partitions: int = 3) -> None:
    for partition in numbers(partitions):
        send(*(b"%d" % number for number in range(count)), topic=topic, partition=partition)


def places(messages: list[hs.ReceivedMessage]) -> list[tuple[int | None, int | None]]:
    return [(message.partition, message.offset) for message in messages]


def test_two_consumers_share_the_partitions(place: Place, log: hs.Client, send: Send) -> None:
    fill(send, 5)
    with (
        log.consumer("shop/carts", group="g", timeout_ms=0) as one,
        place.connect().consumer("shop/carts", group="g", timeout_ms=0) as two,
    ):
        first, second = places(list(one)), places(list(two))
        assert sorted(first + second) == [(partition, offset) for partition in numbers(3) for offset in range(5)]
        assert {len({partition for partition, _ in found}) for found in (first, second)} == {1, 2}
    assert log.offsets("shop/carts", "g") == {at(1): 5, at(2): 5, at(3): 5}


def test_other_groups_and_names_are_not_in_the_way(log: hs.Client, send: Send) -> None:
    fill(send, 2)
    with (
        log.consumer("shop/carts", group="g", timeout_ms=0) as one,
        log.consumer("shop/carts", group="h", timeout_ms=0) as two,
        log.consumer("shop/carts", name="g", timeout_ms=0) as three,
        log.consumer("shop/carts", name="g", timeout_ms=0) as four,
    ):
        assert [len(list(consumer)) for consumer in (one, two, three, four)] == [6, 6, 6, 6]


def test_partitions_that_are_named_are_not_shared(log: hs.Client, send: Send) -> None:
    fill(send, 2)
    with (
        log.consumer("shop/carts", group="g", timeout_ms=0) as sharing,
        log.consumer("shop/carts", group="g", partitions=[at(2)], timeout_ms=0) as explicit,
    ):
        assert places(explicit.poll(10)) == [(at(2), 0), (at(2), 1)]
        assert len(sharing.poll(10)) == 6
        assert len(log.group("shop/carts", "g").members) == 1


def test_a_partition_is_handed_over_when_the_message_in_hand_is_done(log: hs.Client, send: Send) -> None:
    fill(send, 3)
    with log.consumer("shop/carts", group="g", timeout_ms=0) as one:
        in_hand = next(one)
        with log.consumer("shop/carts", group="g", timeout_ms=0) as two:
            of_two = list(two)
            assert in_hand.partition not in {message.partition for message in of_two}
            of_one = [in_hand, *one]
        of_two_later = list(log.consumer("shop/carts", group="g", timeout_ms=0))
    everything = places(of_one + of_two + of_two_later)
    assert sorted(everything) == [(partition, offset) for partition in numbers(3) for offset in range(3)]


def test_what_is_handed_out_by_poll_is_kept_until_it_is_committed(log: hs.Client, send: Send) -> None:
    fill(send, 4)
    with log.consumer("shop/carts", group="g") as one, log.consumer("shop/carts", group="g") as two:
        one.seek(*next((partition, 0) for partition in one.positions))
        held = one.poll(100)
        assert held
        three = log.consumer("shop/carts", group="g")
        rest = two.poll(100) + three.poll(100)
        assert not set(places(held)) & set(places(rest))
        one.commit()
        two.commit()
        three.commit()
        rest += one.poll(100) + two.poll(100) + three.poll(100)
        assert sorted(places(held + rest)) == [(partition, offset) for partition in numbers(3) for offset in range(4)]
        three.close()


def test_a_member_that_leaves_gives_its_partitions_and_what_it_has_not_done(log: hs.Client, send: Send) -> None:
    fill(send, 3)
    one, two = (log.consumer("shop/carts", group="g", timeout_ms=0) for _ in range(2))
    assert one.poll(2)
    one.close(commit=False)
    assert len(list(two)) == 9
    two.close()


def test_a_member_that_fails_or_is_dropped_gives_its_partitions(log: hs.Client, send: Send) -> None:
    fill(send, 3)

    def fail() -> None:
        with log.consumer("shop/carts", group="g") as consumer:
            for _ in consumer:
                raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    dropped = log.consumer("shop/carts", group="g")
    assert len(dropped.poll(100)) == 9
    assert len(log.group("shop/carts", "g").members) == 1
    del dropped
    wait_until(lambda: log.groups("shop/carts") == [])  # over a network it is told by a thread
    with log.consumer("shop/carts", group="g", timeout_ms=0) as consumer:
        assert len(list(consumer)) == 9


def test_messages_that_another_member_committed_are_not_delivered_again(log: hs.Client, send: Send) -> None:
    send(*(b"%d" % number for number in range(10)))
    one = log.consumer("shop/orders", group="g")
    assert [message.offset for message in one.poll(2)] == [0, 1]
    one.commit()  # the other eight are here, and not delivered
    with log.consumer("shop/orders", group="g") as two:
        one.close()
        three = log.consumer("shop/orders", group="g")
        assert [message.offset for message in two.poll(4)] == [2, 3, 4, 5]
        two.commit()
    assert [message.offset for message in three.poll(100)] == [6, 7, 8, 9]
    three.close()


def test_a_partition_that_comes_back_is_read_from_what_is_committed(log: hs.Client, send: Send) -> None:
    fill(send, 4, partitions=3)
    with log.consumer("shop/carts", group="g") as one:
        before = one.poll(1)
        one.commit()
        with log.consumer("shop/carts", group="g") as two:
            between = two.poll(100)
            two.commit()
        after = one.poll(100)
    assert between
    assert sorted(places(before + between + after)) == [(partition, offset) for partition in numbers(3) for offset in range(4)]


def test_a_waiting_member_gets_what_another_gives_up(log: hs.Client, send: Send) -> None:
    got: list[hs.ReceivedMessage] = []

    def consume() -> None:
        with log.consumer("shop/orders", group="g", timeout_ms=20_000) as consumer:
            got.append(next(consumer))

    one = log.consumer("shop/orders", group="g", timeout_ms=0)
    send(b"a", b"b")
    assert next(one).payload == b"a"
    thread = threading.Thread(target=consume)
    thread.start()
    one.close()
    thread.join(60)
    assert [message.payload for message in got] == [b"b"]


def test_new_partitions_are_shared_and_read_from_their_first_message(log: hs.Client, send: Send) -> None:
    with (
        log.consumer("shop/orders", group="g", start="last", timeout_ms=0) as one,
        log.consumer("shop/orders", group="g", start="last", timeout_ms=0) as two,
    ):
        log.create_partitions("shop/orders", 3)
        fill(send, 2, topic="shop/orders", partitions=4)
        found = places(list(one) + list(two) + list(one))
        assert sorted(found) == [(partition, offset) for partition in numbers(4) for offset in range(2)]
        assert sorted(len(member.partitions) for member in log.group("shop/orders", "g").members) == [2, 2]
        log.delete_partitions("shop/orders", 3)
        assert list(one) + list(two) == []
        assert sorted(len(member.partitions) for member in log.group("shop/orders", "g").members) == [0, 1]


def test_a_start_other_than_first_holds_for_the_next_owner_too(log: hs.Client, send: Send) -> None:
    send(b"old")
    one = log.consumer("shop/orders", group="g", start="last", timeout_ms=0)
    send(b"new")
    one.close(commit=False)
    with log.consumer("shop/orders", group="g", start="last", timeout_ms=0) as two:
        assert [message.payload for message in two] == [b"new"]


def read(consumer: hs.Consumer, count: int) -> list[bytes | None]:
    """Iterate until so many messages have come: a partition may be another member's for a moment still."""
    found: list[bytes | None] = []
    until = time.monotonic() + 60
    while len(found) < count and time.monotonic() < until:
        found += [message.payload for message in consumer]
    return found


def test_a_member_that_is_silent_for_too_long_loses_its_partition_and_its_commit_is_refused(log: hs.Client, send: Send) -> None:
    send(b"a", b"b")
    with log.consumer("shop/orders", group="g", session_timeout_ms=1e-3) as slow:
        assert len(slow.poll(1)) == 1
        with log.consumer("shop/orders", group="g", timeout_ms=0) as other:
            assert read(other, 2) == [b"a", b"b"]
            with pytest.raises(hs.RebalancedError, match=r"nothing is committed in partition 1.*group 'g'"):
                slow.commit()
            assert log.offsets("shop/orders", "g") == {at(1): 2}
        assert slow.poll(10) == []  # it is a member again, and goes on where the other has committed
        send(b"c")
        assert [message.payload for message in slow.poll(10)] == [b"c"]
        slow.commit()
    assert log.offsets("shop/orders", "g") == {at(1): 3}


def test_a_member_delivers_nothing_that_another_has_committed_while_it_paused(log: hs.Client, send: Send) -> None:
    send(b"a", b"b", b"c")
    with log.consumer("shop/orders", group="g", session_timeout_ms=1e-3, timeout_ms=0) as paused:
        assert paused.fetch(10_000)
        with log.consumer("shop/orders", group="g", timeout_ms=10_000) as other:
            assert next(other).payload == b"a"
            other.finish()
            assert log.offsets("shop/orders", "g") == {at(1): 1}
            message = paused.take()
            assert message is None or message.payload == b"b"


def test_iteration_goes_on_after_the_consumer_was_too_slow(log: hs.Client, send: Send) -> None:
    send(b"a", b"b", b"c")
    with log.consumer("shop/orders", group="g", session_timeout_ms=1e-3, timeout_ms=0) as slow:
        assert next(slow).payload == b"a"
        # Long enough for a request of the slow one that is under way: until that is answered it is not slow.
        with log.consumer("shop/orders", group="g", timeout_ms=10_000) as other:
            assert next(other).payload == b"a"  # at least once
            assert next(other).payload == b"b"
        assert [message.payload for message in slow] == [b"c"]
    assert log.offsets("shop/orders", "g") == {at(1): 3}


def test_members_in_threads_that_come_and_go_read_everything(place: Place, log: hs.Client) -> None:
    count, partitions = 4000, 6
    log.create_topic("shop/many", partitions=partitions)
    lock, seen, done = threading.Lock(), Counter[bytes | None](), threading.Event()
    orders: dict[int | None, list[int | None]] = {}

    def work(limit: int) -> None:
        with place.connect().consumer("shop/many", group="g") as consumer:
            while limit and not done.is_set():
                for message in consumer.poll(50, timeout_ms=50):
                    with lock:
                        seen[message.payload] += 1
                        orders.setdefault(message.partition, []).append(message.offset)
                        if len(seen) == count:
                            done.set()
                consumer.commit()
                limit -= 1

    threads = [threading.Thread(target=work, args=(limit,)) for limit in (-1, 3, 5, 8, -1)]
    for thread in threads:
        thread.start()
    with log.producer("shop/many", linger_ms=1, batch_count=100) as producer:
        for number in range(count):
            producer.send(b"%d" % number)
    assert done.wait(60)
    for thread in threads:
        thread.join(60)
    assert set(seen.values()) == {1}
    assert all(found == sorted(found, key=lambda offset: offset or 0) for found in orders.values())
    assert log.group("shop/many", "g").lag == 0


def test_members_in_tasks_share_too(tmp_path: Path) -> None:
    async def consume(log: hs.AsyncClient, found: list[hs.ReceivedMessage]) -> None:
        async with log.consumer("shop/carts", group="g", timeout_ms=60_000) as consumer:
            async for message in consumer:
                found.append(message)
                await asyncio.sleep(0)
                if len(found) == 20:
                    break

    async def main() -> None:
        async with hs.connect_async((tmp_path / "log").as_uri()) as log:
            await log.create_topic("shop/carts", partitions=4)
            one: list[hs.ReceivedMessage] = []
            two: list[hs.ReceivedMessage] = []
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(consume(log, one))
                tasks.create_task(consume(log, two))
                async with log.producer("shop/carts") as producer:
                    for number in range(40):
                        await producer.send(b"%d" % number, partition=number % 4 + 1)
            assert sorted(message.payload or b"" for message in one + two) == sorted(b"%d" % n for n in range(40))
            [group] = await log.groups("shop/carts")
            assert group.lag == 0
            assert (await log.seek_group("shop/carts", "g", "first")).lag == 40
            assert (await log.group("shop/carts", "g")).lag == 40
            await log.delete_group("shop/carts", "g")
            assert await log.groups("shop/carts") == []

    asyncio.run(asyncio.wait_for(main(), 120))


def test_groups_show_members_offsets_and_lag(log: hs.Client, send: Send) -> None:
    fill(send, 5)
    assert log.groups("shop/carts") == []
    with pytest.raises(hs.GroupNotFoundError, match="'shop/carts' has no group 'g'"):
        log.group("shop/carts", "g")
    with log.consumer("shop/carts", group="g") as consumer, log.consumer("shop/carts", group="g"):
        consumer.seek(next(iter(consumer.positions)), 3)
        message = next(consumer)
        consumer.commit()
        [group] = log.groups("shop/carts")
        assert (group.topic, group.name, group.process, len(group.members)) == ("shop/carts", "g", None, 2)
        assert sorted(number for member in group.members for number in member.partitions) == list(numbers(3))
        mine = next(partition for partition in group.partitions if partition.number == message.partition)
        assert (mine.committed, mine.end_offset, mine.lag) == ((message.offset or 0) + 1, 5, 4 - (message.offset or 0))
        assert mine.member in {member.id for member in group.members}
        for change in (lambda: log.seek_group("shop/carts", "g", 0), lambda: log.delete_group("shop/carts", "g")):
            with pytest.raises(hs.GroupInUseError, match="in use by members in this process"):
                change()
    assert log.group("shop/carts", "g").members == ()


def test_seek_and_delete_a_group(log: hs.Client, send: Send) -> None:
    fill(send, 5)
    made = log.seek_group("shop/carts", "g", 2)
    assert [(place.number, place.committed, place.lag) for place in made.partitions] == [(number, 2, 3) for number in numbers(3)]
    assert log.seek_group("shop/carts", "g", "last", partitions=[at(3)]).lag == 6
    assert log.seek_group("shop/carts", "g", hs.PollingStrategy.timestamp(0), partitions=[at(3)]).lag == 11
    with pytest.raises(hs.OffsetOutOfRangeError, match=f"offset 6 is not in partition {at(1)}"):
        log.seek_group("shop/carts", "g", 6)
    with pytest.raises(hs.PartitionNotFoundError, match="no partition 9"):
        log.seek_group("shop/carts", "g", 0, partitions=[at(9)])
    with pytest.raises(hs.InvalidInputError, match="'next' is not a valid start"):
        log.seek_group("shop/carts", "g", "next")
    with log.consumer("shop/carts", group="g", timeout_ms=0) as consumer:
        assert len(list(consumer)) == 11
    log.delete_group("shop/carts", "g")
    assert log.offsets("shop/carts", "g") == {}
    with pytest.raises(hs.GroupNotFoundError):
        log.delete_group("shop/carts", "g")


_READER = """
import sys, headstream as hs
with hs.connect(sys.argv[1]) as log, log.consumer("shop/orders", group="g") as consumer:
    for message in consumer:
        print(message.offset, flush=True)
"""


def test_another_process_stands_by_until_the_first_is_gone(tmp_path: Path) -> None:
    url = (tmp_path / "log").as_uri()
    with hs.connect(url) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            producer.send(b"a")
            producer.flush()
            with subprocess.Popen([sys.executable, "-c", _READER, url], stdout=subprocess.PIPE, text=True) as reader:
                assert reader.stdout is not None
                assert reader.stdout.readline() == "0\n"
                with log.consumer("shop/orders", group="g") as mine:
                    assert mine.positions == {}
                    assert mine.poll(timeout_ms=1) == []
                    assert log.group("shop/orders", "g").process == reader.pid
                    with pytest.raises(hs.GroupInUseError, match=f"in use by process {reader.pid}"):
                        log.delete_group("shop/orders", "g")
                    producer.send(b"b")
                    assert reader.stdout.readline() == "1\n"
                    reader.kill()
                    reader.wait()
                    producer.send(b"c")
                    found = [message.offset for message in mine.poll(timeout_ms=10_000)]
                    while 2 not in found:
                        found += [message.offset for message in mine.poll(timeout_ms=10_000)]
                    assert found in ([1, 2], [2])  # it may have been killed before it committed
                    mine.commit()
                assert log.group("shop/orders", "g").process is None
