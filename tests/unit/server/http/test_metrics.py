"""Metrics of messages that are marked for deletion, held and removed."""

from __future__ import annotations

import urllib.request

import headstream as hs
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import MessageState, StateChange
from headstream.core.model.topology import Limits, NewTopic, TopicOptions
from headstream.log.administration import create_topic, update_topic
from headstream.log.catalog.records import TopicRecord
from headstream.log.log import Log
from headstream.log.system.files import MemoryFiles
from headstream.log.upkeep.marked_removal import MarkedRemoval
from headstream.server.http.pages import describe_removals
from headstream.testing.local_server import LocalServer
from tests.support.log.logs import SEED, batch

SECOND = 1_000_000
NAMES = ("removed_messages", "removed_bytes", "marked_messages", "held_messages", "oldest_mark_seconds")


def measure(log: Log, now_us: int) -> dict[str, float]:
    found = {metric.name: metric.samples[0].value for metric in describe_removals(log, now_us)}
    return {name: found[f"headstream_{name}"] for name in NAMES}


def test_metrics_tell_of_marks_holds_and_removals() -> None:
    log = Log("memory", MemoryFiles(), is_memory=True, segment_bytes=1 << 20)
    assert set(measure(log, 1).values()) == {0}  # nothing was ever written
    log.start_writing("6d2f1a52-7a3e-4a53-9d3c-9b5b7f0f6a10", 1)
    names = ("orders", "held")
    for name in names:
        create_topic(log, NewTopic(TopicName("shop", name), 1, Limits.WIDE), 5)

    def topic(name: str) -> TopicRecord:
        return log.snapshot()["shop"].topics[name]

    for name in names:
        for number in range(4):
            log.append(topic(name), 1, batch(b"x" * 1000), 100 + number, SEED)
    for name, offsets, at_s in (("orders", [0, 2], 20), ("orders", [3], 10), ("held", [1], 5)):
        mark = StateChange(-1, MessageState.MARKED_FOR_DELETION.value, f"at {at_s}", "", at_s * SECOND)
        log.states.set(topic(name), 1, offsets, mark)
    update_topic(log, topic("held"), options=TopicOptions(legal_hold=True))
    assert list(measure(log, 50 * SECOND).values()) == [0, 0, 3, 1, 40]
    MarkedRemoval(log, lambda: 50 * SECOND).remove_now(topic("orders"), 1, "at 10")
    assert list(measure(log, 50 * SECOND).values()) == [1, 1045, 2, 1, 30]
    log.close()


def test_a_server_has_the_metrics() -> None:
    with LocalServer() as server, hs.connect(server.url) as log:
        log.create_topic("shop/orders")
        log.send("shop/orders", b"wrong")
        log.set_state("shop/orders", 1, 0, "marked_for_deletion")
        host, port = server.http_address
        with urllib.request.urlopen(f"http://{host}:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    assert "headstream_marked_messages 1.0" in lines
    assert "headstream_removed_bytes_total 0.0" in lines
