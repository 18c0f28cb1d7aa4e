"""Mirrors between logs of every kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import headstream as hs
from headstream.cli.main import cli
from headstream.mirror import Mirror, MirrorOptions, MirrorStats
from tests.behaviour.conftest import Place

ONCE = MirrorOptions(once=True)


def mirror(source: hs.Client, target: hs.Client, **options: Any) -> MirrorStats:
    return Mirror(source, target, MirrorOptions(once=True, **options)).run()


def everything(log: hs.Client, topic: str) -> list[hs.ReceivedMessage]:
    found = log.poll(topic, count=100_000, states=None)
    return sorted(found, key=lambda message: (message.partition, message.offset))


@pytest.fixture
def source() -> Any:
    with hs.connect("memory://") as log:
        yield log


def fill(log: hs.Client, *, poisoned: bool = True) -> None:
    log.create_topic("shop/orders", partitions=3, limits="wide", retention_bytes=1 << 30)
    log.create_topic("bank/payments")
    with log.producer("shop/orders") as producer:
        for number in range(100):
            headers: list[tuple[str, Any]] = [("n", hs.uint8(number)), ("twice", 1), ("twice", "two"), ("nothing", None)]
            producer.send(b"%d" % number if number % 7 else None, key=b"%d" % (number % 10), headers=headers, id=number + 1)
    log.send("shop/orders", b"timed", headers={"hs.timestamp": 1_600_000_000_000_000})
    log.send("bank/payments", b"pay")
    if poisoned:
        log.set_state("shop/orders", 1, 0, "poisoned", reason="as arranged")


def test_a_mirror_keeps_keys_headers_ids_times_states_and_partitions(source: hs.Client, place: Place) -> None:
    fill(source)
    target = place.connect()
    target.create_topic("other/topic")
    stats = mirror(source, target)
    assert (stats.copied, stats.found, sum(stats.lag.values())) == (102, 0, 0)
    for topic in ("shop/orders", "bank/payments"):
        before, after = everything(source, topic), everything(target, topic)
        assert len(after) == len(before)
        for one, other in zip(before, after, strict=True):
            assert (other.partition, other.key, other.payload, other.id) == (one.partition, one.key, one.payload, one.id)
            assert (other.state, other.checksum) == (one.state, one.checksum)
            timestamp = one.headers.get("hs.timestamp", hs.int64(one.timestamp))
            kept = other.headers.without("hs.mirror")
            assert kept.without("hs.timestamp").as_bytes() == one.headers.without("hs.timestamp").as_bytes()
            assert kept["hs.timestamp"] == timestamp
    created = target.topic("shop/orders")
    assert (created.limits, created.retention_bytes, len(created.partitions)) == (hs.Limits.WIDE, 1 << 30, 3)
    assert [change.reason for change in target.states("shop/orders", 1)] == ["mirrored in this state"]


def test_a_second_run_copies_only_what_is_new(source: hs.Client, place: Place) -> None:
    fill(source, poisoned=False)
    target = place.connect()
    target.create_topic("other/topic")
    mirror(source, target)
    assert mirror(source, target).copied == 0
    source.send("bank/payments", b"more")
    source.create_topic("bank/later")
    source.send("bank/later", b"x")
    stats = mirror(source, target)
    assert (stats.copied, stats.found) == (2, 0)
    assert [message.payload for message in everything(target, "bank/payments")] == [b"pay", b"more"]


def test_a_run_without_any_committed_offsets_reads_the_destination_back(source: hs.Client, place: Place) -> None:
    fill(source)
    target = place.connect()
    target.create_topic("other/topic")
    run = Mirror(source, target, ONCE)
    run._save = lambda: None  # type: ignore[method-assign]  # as if killed before the first checkpoint, all messages stored
    run.run()
    assert [change.state for change in target.states("shop/orders", 1)] == []
    stats = mirror(source, target)
    assert (stats.copied, stats.found) == (0, 102)
    assert len(everything(target, "shop/orders")) == 101
    assert [change.state for change in target.states("shop/orders", 1)] == [hs.MessageState.POISONED]


def test_a_checkpoint_before_all_that_was_read_back_is_passed_forgets_nothing(source: hs.Client, place: Place) -> None:
    source.create_topic("shop/orders")
    with source.producer("shop/orders") as producer:
        for number in range(3000):
            producer.send(b"%d" % number)
    target = place.connect()
    target.create_topic("other/topic")
    unsaved = Mirror(source, target, ONCE)
    unsaved._save = lambda: None  # type: ignore[method-assign]  # as if killed before the first checkpoint, all messages stored
    unsaved.run()
    interrupted = Mirror(source, target, MirrorOptions(once=True, checkpoint_s=0))
    save = interrupted._save

    def save_once() -> None:
        save()
        interrupted._save = lambda: None  # type: ignore[method-assign]  # as if killed after the first checkpoint
        interrupted.stop()

    interrupted._save = save_once  # type: ignore[method-assign]
    interrupted.run()
    assert 0 < interrupted.stats.found < 3000
    stats = mirror(source, target, checkpoint_s=0)
    assert (stats.copied, stats.found) == (0, 3000 - interrupted.stats.found)
    assert len(everything(target, "shop/orders")) == 3000
    source.send("shop/orders", b"later")
    assert mirror(source, target).copied == 1


def test_mirrors_in_both_directions_do_not_go_in_a_circle(source: hs.Client, place: Place) -> None:
    target = place.connect()
    for log in (source, target):
        log.create_topic("shop/orders")
    source.send("shop/orders", b"from source")
    target.send("shop/orders", b"from target")
    for _ in range(3):
        mirror(source, target)
        mirror(target, source)
    for log in (source, target):
        assert sorted(message.payload or b"" for message in everything(log, "shop/orders")) == [b"from source", b"from target"]


def test_mirrors_in_a_ring_of_three_logs_copy_each_message_once(source: hs.Client, place: Place) -> None:
    with hs.connect("memory://") as third:
        ring = [source, place.connect(), third]
        for log in ring:
            log.create_topic("shop/orders")
        source.send("shop/orders", b"x")
        for _ in range(3):
            for one, other in zip(ring, [*ring[1:], ring[0]], strict=True):
                mirror(one, other)
        assert [len(everything(log, "shop/orders")) for log in ring] == [1, 1, 1]


def test_a_purged_topic_is_copied_anew(source: hs.Client, place: Place) -> None:
    target = place.connect()
    source.create_topic("shop/orders")
    target.create_topic("shop/orders")
    source.send("shop/orders", b"before")
    mirror(source, target)
    source.purge_topic("shop/orders")
    source.send("shop/orders", b"after")
    assert mirror(source, target).copied == 1
    assert [message.payload for message in everything(target, "shop/orders")] == [b"before", b"after"]


def test_other_partitions_in_the_destination_keep_the_order_of_each_key(source: hs.Client, place: Place) -> None:
    fill(source, poisoned=False)
    target = place.connect()
    target.create_topic("shop/orders", partitions=2, limits="wide")
    plan = Mirror(source, target, MirrorOptions(topics=["shop/orders"])).plan()
    assert plan.topics[0].differences == ("3 partitions become 2: messages are distributed by key or in rotation",)
    mirror(source, target, topics=["shop/orders"])
    assert mirror(source, target, topics=["shop/orders"]).copied == 0
    for key in range(10):
        ids = [message.id for message in everything(target, "shop/orders") if message.key == b"%d" % key]
        assert ids == [number + 1 for number in range(100) if number % 10 == key]


def test_a_route_chooses_topics_and_leaves_messages_out(source: hs.Client, place: Place) -> None:
    source.create_topic("shop/orders")
    for region in ("eu", "us", "test", "eu"):
        source.send("shop/orders", region.encode(), headers={"region": region})

    def route(message: hs.ReceivedMessage) -> str | None:
        region = str(message.headers["region"].value)
        return None if region == "test" else f"{region}/orders"

    target = place.connect()
    target.create_topic("other/topic")
    stats = mirror(source, target, route=route)
    assert (stats.copied, stats.left_out) == (3, 1)
    assert [message.payload for message in everything(target, "eu/orders")] == [b"eu", b"eu"]
    assert mirror(source, target, route=route).copied == 0


def test_states_available_leaves_out_other_messages(source: hs.Client, place: Place) -> None:
    fill(source)
    target = place.connect()
    target.create_topic("other/topic")
    stats = mirror(source, target, states="available")
    assert (stats.copied, stats.missed) == (101, 0)
    assert target.states("shop/orders", 1) == []


def test_a_rate_limits_the_bytes_per_second(source: hs.Client) -> None:
    source.create_topic("shop/orders")
    with source.producer("shop/orders") as producer:
        for _ in range(50):
            producer.send(b"x" * 1000)
    waits: list[float] = []
    with hs.connect("memory://") as target:
        run = Mirror(source, target, MirrorOptions(once=True, bytes_per_s=100_000))

        def wait(timeout: float | None = None) -> bool:
            waits.append(timeout or 0)
            return False

        run._stop.wait = wait  # type: ignore[method-assign]
        run.run()
    assert waits  # each wait is until what was sent is within the rate: the last one is nearly all of it
    assert 0.3 < max(waits) <= 0.6


def test_mirror_refuses_topics_that_it_cannot_mirror(source: hs.Client) -> None:
    source.create_topic("shop/orders")
    with pytest.raises(hs.InvalidOptionError, match="must be different logs"):
        Mirror(source, source)
    with (
        hs.connect("memory://", interceptors=[_Stamp()]) as other,
        pytest.raises(hs.InvalidOptionError, match="without interceptors"),
    ):
        Mirror(source, other)
    with hs.connect("memory://") as target:
        with pytest.raises(hs.InvalidOptionError, match="source log has no identity"):
            Mirror(target, source)
        with pytest.raises(hs.TopicNotFoundError):
            Mirror(source, target, MirrorOptions(topics=["shop/missing"])).plan()


class _Stamp:
    def on_send(self, message: hs.Message) -> hs.Message:
        return message


def test_the_command_shows_a_plan_copies_and_prints_a_summary(tmp_path: Path) -> None:
    one, other = ((tmp_path / name).as_uri() for name in ("one", "other"))
    with hs.connect(one) as log:
        fill(log)
    arguments = ["mirror", one, other, "--topics", "shop/*", "--once", "--output", "json"]
    plan = CliRunner().invoke(cli, [*arguments, "--dry-run"])
    assert plan.exit_code == 0, plan.output
    assert json.loads(plan.stdout)["topics"][0]["is_created"] is True
    assert not (tmp_path / "other").exists()
    ran = CliRunner().invoke(cli, [*arguments, "--metrics", str(tmp_path / "metrics.txt"), "--rate", "100MB"])
    assert ran.exit_code == 0, ran.output
    summary = json.loads(ran.stdout)
    assert (summary["copied"], summary["lag"]) == (101, 0)
    assert "create shop/orders: 101 messages in 3 partitions" in ran.stderr
    assert "headstream_mirror_copied_messages_total 101" in (tmp_path / "metrics.txt").read_text()
    assert json.loads(CliRunner().invoke(cli, arguments).stdout)["copied"] == 0
