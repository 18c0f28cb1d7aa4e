"""Catalog: what is in it, for one writer and any number of readers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import StateChange
from headstream.core.model.topology import Limits, TopicOptions
from headstream.errors import StorageError
from headstream.log.catalog.catalog import Catalog, topics_of
from headstream.log.catalog.records import GroupRecord, TopicLabels
from headstream.log.catalog.state_records import find_states, put_states


@pytest.fixture(params=["file", "memory"])
def writer(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    return Catalog(str(tmp_path / "catalog.sqlite") if request.param == "file" else None, is_writer=True)


def add(catalog: Catalog, stream: str, *topics: str) -> None:
    with catalog.transaction():
        known = catalog_numbers(catalog).get(stream)
        number = catalog.insert_stream(stream, 5) if known is None else known
        for topic in topics:
            catalog.insert_topic(number, topic, 2, Limits.WIDE, 6)


def catalog_numbers(catalog: Catalog) -> dict[str, int]:
    return {name: record.number for name, record in catalog.snapshot().items()}


def test_snapshot_has_streams_and_topics(writer: Catalog) -> None:
    assert writer.snapshot() == {}
    add(writer, "shop", "orders", "carts")
    stream = writer.snapshot()["shop"]
    assert (stream.name, stream.id, stream.number, stream.created_us, list(stream.topics)) == (
        "shop",
        1,
        1,
        5,
        ["orders", "carts"],
    )
    topic = stream.topics["carts"]
    assert (str(topic.name), topic.id, topic.number, topic.stream_number) == ("shop/carts", 2, 2, 1)
    assert (topic.created_us, topic.limits, topic.partitions) == (6, Limits.WIDE, 2)


def test_ids_are_the_smallest_that_are_free_and_numbers_are_never_given_again(writer: Catalog) -> None:
    add(writer, "a", "x", "y", "z")
    add(writer, "b", "x")
    with writer.transaction():
        writer.delete_topic(writer.snapshot()["a"].topics["x"].number)
    add(writer, "a", "new")
    assert {t.name.topic: (t.id, t.number) for t in writer.snapshot()["a"].topics.values()} == {
        "y": (2, 2), "z": (3, 3), "new": (1, 5)
    }  # fmt: skip
    with writer.transaction():
        writer.delete_stream(writer.snapshot()["b"].number)
    add(writer, "c", "x")
    record = writer.snapshot()["c"]
    assert (record.id, record.number, record.topics["x"].id, record.topics["x"].number) == (2, 3, 1, 6)


def test_transaction_takes_all_back_when_its_body_fails(writer: Catalog) -> None:
    add(writer, "a", "x")
    before = writer.snapshot()

    def change_and_fail() -> None:
        with writer.transaction():
            writer.insert_stream("b", 1)
            writer.delete_topic(1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        change_and_fail()
    assert writer.snapshot() == before


def test_readers_see_what_the_writer_does(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog.sqlite")
    writer = Catalog(path, is_writer=True)
    reader = Catalog(path, is_writer=False)
    assert reader.snapshot() == {}
    add(writer, "a", "x")
    assert reader.snapshot() == writer.snapshot()
    seen = reader.snapshot()
    assert reader.snapshot() is seen  # nothing was read again, for nothing has changed
    with writer.transaction():
        writer.delete_topic(1)
    assert list(reader.snapshot()["a"].topics) == []
    writer.close()
    assert list(reader.snapshot()) == ["a"]
    reader.close()


def test_reader_sees_one_state_when_the_writer_commits_between_its_queries(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog.sqlite")
    writer, reader = (Catalog(path, is_writer=is_writer) for is_writer in (True, False))
    states = [writer.snapshot()]

    def change(_: str) -> None:
        now = len(states)
        with writer.transaction():
            for topic in topics_of(writer.snapshot()):
                writer.renumber_topic(topic.number, now)
            writer.insert_topic(writer.insert_stream(f"s{now}", now), "x", 2, Limits.WIDE, now)
        states.append(writer.snapshot())

    reader._connection.set_trace_callback(change)
    for repetition in range(1, 4):
        assert reader.snapshot() in states
        assert len(states) > 3 * repetition


def test_states_have_their_reason_when_the_writer_commits_between_the_queries_of_a_reader(tmp_path: Path) -> None:
    path = str(tmp_path / "catalog.sqlite")
    writer, reader = (Catalog(path, is_writer=is_writer) for is_writer in (True, False))
    add(writer, "shop", "orders")
    put: list[StateChange] = []

    def change(_: str) -> None:
        put.append(StateChange(len(put), 10, "late", "billing", 5))
        with writer.transaction(()):
            put_states(writer, 1, 1, put[-1:])

    reader._connection.set_trace_callback(change)
    for ahead in range(5):
        found = find_states(reader, 1, 1, len(put) + ahead)
        assert all(state in put for state in found)


def test_snapshot_after_a_change_that_names_its_topics_is_what_is_there(writer: Catalog, tmp_path: Path) -> None:
    add(writer, "shop", "a", "b", "c")
    add(writer, "depot", "x")
    shop = writer.snapshot()["shop"]
    with writer.transaction([shop.topics["b"].number]):
        writer.delete_topic(shop.topics["b"].number)
    touched = [shop.topics["c"].number]
    with writer.transaction(touched):
        touched.append(writer.insert_topic(shop.number, "d", 3, Limits.IGGY, 9))  # takes the id of b
        writer.delete_partitions(shop.topics["c"].number, 2)
    with writer.transaction([]):
        put_states(writer, shop.topics["a"].number, 1, [])
    renewed = writer.snapshot()
    assert list(renewed["shop"].topics) == ["a", "d", "c"]
    assert renewed["shop"].topics["a"] is shop.topics["a"]
    assert [topic.partitions for topic in renewed["shop"].topics.values()] == [2, 3, 1]
    assert list(shop.topics) == ["a", "b", "c"]  # whoever holds an older one keeps it
    with writer.transaction():
        pass
    again = writer.snapshot()
    assert again == renewed
    assert [list(stream.topics) for stream in again.values()] == [["a", "d", "c"], ["x"]]


def test_snapshot_is_as_it_was_when_a_change_that_names_its_topics_fails(writer: Catalog) -> None:
    add(writer, "shop", "a")
    before = writer.snapshot()

    def fail() -> None:
        touched: list[int] = []
        with writer.transaction(touched):
            touched.append(writer.insert_topic(before["shop"].number, "b", 1, Limits.IGGY, 9))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert writer.snapshot() == before


def test_groups_are_in_the_snapshot_and_outlive_a_purge(writer: Catalog) -> None:
    add(writer, "shop", "a", "b")
    topic = writer.snapshot()["shop"].topics["a"]
    with writer.transaction([topic.number]):
        assert [writer.insert_group(topic.number, *group) for group in (("x", 2), ("y",), ("z",))] == [2, 1, 3]
    with writer.transaction([topic.number]):
        writer.delete_group(topic.number, 2)
    groups = GroupRecord(1, "y"), GroupRecord(3, "z")
    assert [topic.groups for topic in writer.snapshot()["shop"].topics.values()] == [groups, ()]
    with writer.transaction():
        writer.renumber_topic(topic.number, 9)
    assert writer.snapshot()["shop"].topics["a"].groups == groups
    with writer.transaction():
        writer.delete_stream(topic.stream_number)
    assert writer.select("SELECT * FROM groups", since=6) == []


def test_streams_and_topics_get_the_ids_that_are_asked_for(writer: Catalog) -> None:
    with writer.transaction():
        shop = writer.insert_stream("shop", 5, 7)
        writer.insert_stream("depot", 5)
        writer.insert_topic(shop, "a", 0, Limits.IGGY, 6, id_=9, labels=TopicLabels(2, 3))
        writer.insert_topic(shop, "b", 1, Limits.IGGY, 6)
    streams = writer.snapshot()
    assert {name: stream.id for name, stream in streams.items()} == {"depot": 1, "shop": 7}
    assert {name: (topic.id, topic.partitions, topic.labels) for name, topic in streams["shop"].topics.items()} == {
        "b": (1, 1, TopicLabels(1, 1)), "a": (9, 0, TopicLabels(2, 3))
    }  # fmt: skip


def test_a_change_of_a_topic_leaves_what_it_does_not_name(writer: Catalog) -> None:
    add(writer, "shop", "a", "b")
    a, b = writer.snapshot()["shop"].topics.values()
    options = TopicOptions(retention_us=5)
    for changes in ({"name": "c"}, {"options": options}, {"labels": TopicLabels(2, 1)}, {}):
        with writer.transaction([a.number]):
            writer.update_topic(a.number, **changes)
    expected = replace(a, name=TopicName("shop", "c"), options=options, labels=TopicLabels(2, 1))
    assert writer.snapshot()["shop"].topics == {"c": expected, "b": b}
    with writer.transaction():
        writer.rename_stream(a.stream_number, "depot")
    assert [str(topic.name) for topic in writer.snapshot()["depot"].topics.values()] == ["depot/c", "depot/b"]
    with writer.transaction():
        pass
    assert list(writer.snapshot()) == ["depot"]


def test_look_finds_what_is_committed_when_a_transaction_is_under_way(tmp_path: Path) -> None:
    writer = Catalog(str(tmp_path / "catalog.sqlite"), is_writer=True)
    add(writer, "shop", "orders")
    with ThreadPoolExecutor(1) as other, writer.transaction():
        writer.insert_stream("mad", 6)
        # The rows are read before the transaction ends.
        found = other.submit(writer.select_committed, "SELECT name FROM streams", since=1).result(60)
        assert found == [("shop",)]
    assert writer.select_committed("SELECT name FROM streams ORDER BY name", since=1) == [("mad",), ("shop",)]
    with pytest.raises(StorageError):
        writer.select_committed("DELETE FROM streams", since=1)
    writer.close()
