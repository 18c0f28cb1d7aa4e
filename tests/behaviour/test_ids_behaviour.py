"""Streams and topics by id, and partitionings: the same over every transport."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headstream as hs
from headstream.testing.local_server import LocalServer
from tests.behaviour.conftest import Place, at, numbers
from tests.support.cli_inputs import run


def test_every_call_takes_ids_in_place_of_names(log: hs.Client) -> None:
    log.send("1/1", b"a", key=b"k")
    assert log.topic("1/2").full_name == log.topic("shop/2").full_name == log.topic("1/carts").full_name == "shop/carts"
    assert log.stream("1").name == "shop"
    assert [topic.name for topic in log.topics("1")] == ["orders", "carts"]
    with log.producer("1/1") as producer:
        producer.send(b"b")
    assert [(message.topic, message.payload) for message in log.poll("1/1")] == [("shop/orders", b"a"), ("shop/orders", b"b")]
    with log.consumer("1/1", group="g", timeout_ms=0) as consumer:
        assert [message.payload for message in consumer] == [b"a", b"b"]
    with log.consumer(["1/1", "shop/c*"], group="several", timeout_ms=0) as several:
        assert several.topics == ["shop/carts", "shop/orders"]
        several.commit(several.poll()[0])
    assert log.offsets("1/1", "g") == {at(1): 2}
    assert [group.name for group in log.groups("1/1")] == ["g", "several"]
    assert log.group("1/1", "g").lag == 0
    assert log.seek_group("1/1", "g", "first").lag == 2
    log.delete_group("1/1", "g")
    log.set_state("1/1", 1, 0, "poisoned")
    assert [change.offset for change in log.states("1/1")] == [0]
    assert log.update_topic("1/1", retention_bytes=1000).name == "orders"
    assert len(log.create_partitions("1/1").partitions) == 2
    assert len(log.delete_partitions("1/1").partitions) == 1
    log.purge_topic("1/1")
    assert log.topic("shop/orders").messages_count == 0
    assert log.rename_topic("1/1", "bills").full_name == "shop/bills"
    log.delete_topic("1/1")
    assert [topic.name for topic in log.topics("1")] == ["carts"]
    assert log.rename_stream("1", "market").name == "market"
    log.delete_stream("1")
    assert log.streams() == []


def test_a_number_as_a_name_is_found_before_an_id(log: hs.Client, place: Place) -> None:
    if place.url.startswith("http"):
        return  # numbers are ids there
    log.create_topic("1/1")  # the second stream, the first topic in it
    log.send("1/1", b"by name")
    log.send("shop/orders", b"by id")
    assert [message.payload for message in log.poll("1/1")] == [b"by name"]
    assert [message.payload for message in log.poll("2/1")] == [b"by name"]
    assert log.topic("1/2").full_name == "shop/carts"  # stream `1` has no topic `2`, neither by name nor by id
    log.delete_topic("1/1")
    assert [message.payload for message in log.poll("1/1")] == [b"by id"]


def test_over_http_a_number_is_an_id_only(log: hs.Client, place: Place) -> None:
    if not place.url.startswith("http"):
        return
    other = place.connect()
    other.create_topic("numbers/7")
    with pytest.raises(hs.InvalidInputError, match="the name '7' is a number, which HTTP treats as an id"):
        other.topic("2/1")
    with pytest.raises(hs.TopicNotFoundError, match="neither by name nor by id"):
        other.topic("numbers/7")


@pytest.mark.parametrize("name", ["1/3", "9/1", "shop/9", "9/orders", "1/4294967296"])
def test_an_id_that_is_not_there_is_told_as_a_missing_topic(log: hs.Client, name: str) -> None:
    with pytest.raises(
        (hs.TopicNotFoundError, hs.StreamNotFoundError), match=f"there is no (topic|stream) '({name}|{name[:2]})'"
    ):
        log.poll(name)
    with pytest.raises(hs.StreamNotFoundError):
        log.stream("9")


def test_an_asynchronous_client_takes_ids(log: hs.Client, place: Place) -> None:
    async def body() -> None:
        async with hs.connect_async(place.url, **place.options) as client:
            await client.send("1/1", b"a")
            assert [message.topic for message in await client.poll("1/1")] == ["shop/orders"]
            async with client.consumer(["1/1"], timeout_ms=0) as consumer:
                assert [message.payload async for message in consumer] == [b"a"]

    asyncio.run(body())


@pytest.mark.parametrize("kind", ["file", "tcp", "http"])
def test_the_command_line_takes_ids(kind: str, tmp_path: Path) -> None:
    with LocalServer() as server:
        url = {"file": tmp_path.as_uri(), "tcp": server.url, "http": server.http_url}[kind]
        with hs.connect(url) as log:
            log.create_topic("shop/orders")
            log.create_topic("shop/carts")
        run("send", "1/1", "two teapots", url=url)
        assert b"two teapots" in run("poll", "1/1", url=url).stdout
        assert b"two teapots" in run("tail", "1/1", "--last", "1", "--count", "1", url=url).stdout
        assert b"shop/orders" in run("topic", "show", "1/1", url=url).stdout
        assert b"shop" in run("stream", "show", "1", url=url).stdout
        assert b"shop/carts" in run("topic", "list", "1", url=url).stdout
        run("topic", "delete", "1/1", "--yes", url=url)
        with hs.connect(url) as log:
            assert [topic.full_name for topic in log.topics()] == ["shop/carts"]


def test_a_partitioning_says_which_partition_a_message_goes_to(log: hs.Client) -> None:
    by_key = {key: log.send("shop/carts", b"x", key=key).partition for key in (b"a", b"b", b"c", b"d", b"e")}
    assert len(set(by_key.values())) > 1
    for key, partition in by_key.items():
        where = log.send("shop/carts", b"y", key=b"other", partition=hs.Partitioning.key(key))
        assert where.partition == partition
        assert log.poll("shop/carts", partition, start="last", count=1)[0].key == b"other"
    assert log.send("shop/carts", b"x", key=b"a", partition=hs.Partitioning.partition(at(3))).partition == at(3)
    with log.producer("shop/carts", batch_count=1) as producer:
        spread = {producer.send_and_wait(b"x", key=b"a", partition=hs.Partitioning.balanced()).partition for _ in range(3)}
    assert spread == set(numbers(3))


def test_send_refuses_a_partition_that_the_topic_does_not_have(log: hs.Client) -> None:
    for number in (0, 4) if at(1) else (3, 4):
        with pytest.raises(hs.PartitionNotFoundError, match=f"has no partition {number}"):
            log.send("shop/carts", b"x", partition=hs.Partitioning.partition(number))
    for wrong in ("2", 2.0, True, b"key"):
        with pytest.raises(hs.InvalidInputError, match="is not a partition"):
            log.send("shop/carts", b"x", partition=wrong)  # type: ignore[arg-type]
    assert log.topic("shop/carts").messages_count == 0
