"""Unit tests of headstream.log.administration."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from pathlib import Path

import pytest

from headstream.core.model.polling import OffsetOwner
from headstream.log.administration import delete_stream, delete_topic, rename_stream, update_topic
from headstream.log.opening import close_log, open_directory, open_memory
from tests.support.log.logs import SEED, batch, payloads
from tests.unit.log.test_log import make_topic, read


def test_delete_topic_removes_its_files_and_a_new_one_begins_empty(tmp_path: Path) -> None:
    log = open_directory(str(tmp_path))
    topic = make_topic(log)
    log.append(topic, 1, batch(b"old"), 1, SEED)
    assert len(read(log, topic)) == 1
    log.offsets(topic).commit(OffsetOwner.group("g"), 1, 1, 1)
    delete_topic(log, topic)
    assert not Path(log.partition_directory(topic, 1)).exists()
    again = make_topic(log)
    assert (again.id, again.number) == (1, 2)
    assert read(log, again) == []
    assert log.offsets(again).committed(OffsetOwner.group("g"), 1) is None
    make_topic(log, name="carts")
    delete_stream(log, "shop")
    assert log.snapshot() == {}
    assert not list((tmp_path / "streams").rglob("*.log"))
    close_log(log)


@pytest.mark.parametrize("noun", ["stream", "topic"])
def test_a_rename_leaves_messages_offsets_and_open_files_and_wakes_who_waits(noun: str) -> None:
    log = open_memory()
    topic = make_topic(log)
    log.append(topic, 1, batch(b"before"), 3, SEED)
    log.offsets(topic).commit(OffsetOwner.group("billing"), 1, 1, 4)
    names: list[tuple[list[str], list[str]]] = []

    def is_there(directories: Collection[str]) -> bool:
        snapshot = log.snapshot()
        names.append(([*snapshot], [name for stream in snapshot.values() for name in stream.topics]))
        if len(names) == 1:
            threading.Thread(target=rename).start()
        return names[-1] != names[0]

    def rename() -> None:
        if noun == "stream":
            rename_stream(log, log.snapshot()["shop"], "depot")
        else:
            update_topic(log, topic, name="carts")

    with log.reading(topic, 1) as follower:
        follower.refresh()
    assert log.wait([log.partition_directory(topic, 1)], is_there, 30, time.monotonic)
    assert names[-1] == ((["depot"], ["orders"]) if noun == "stream" else (["shop"], ["carts"]))
    ((renamed,),) = [stream.topics.values() for stream in log.snapshot().values()]
    log.append(renamed, 1, batch(b"after"), 5, SEED)
    assert payloads(read(log, renamed)) == [b"before", b"after"] == payloads(read(log, topic))
    assert log.offsets(renamed).committed(OffsetOwner.group("billing"), 1) == 1
    close_log(log)
