"""Messages that a pipeline sets aside, as topics of a real Kafka broker: whole, each once, whatever is cut off."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.errors import InvalidOptionError, StorageError
from headstream.mirror.target import TargetTopic
from headstream.replicate.run import copies
from headstream.replicate.run.copies import check_copies
from headstream.replicate.settings.config import ReplicateConfig
from headstream.testing import SourceDatabase
from tests.support.kafka_cluster import empty_cluster, killed_broker
from tests.support.replicate.pipeline_work import SECOND_US, Work, plain

SCHEMA_WAIT_US = 60 * SECOND_US


@pytest.fixture
def url() -> Iterator[str]:
    with empty_cluster() as url:
        yield url


def open_work(directory: Path, url: str) -> Work:
    return Work(directory, delayed=f"{url}/cdc.delayed", dead_letter=f"{url}/cdc.dead")


def copied(url: str, topic: str) -> list[hs.ReceivedMessage]:
    with hs.connect(url) as log:
        there = {f"{found.stream}/{found.name}" for found in log.topics()}
        return log.poll(topic, count=1000) if topic in there else []


def payloads(url: str, topic: str) -> list[bytes | None]:
    return [message.payload for message in copied(url, topic)]


def test_dead_letters_are_in_the_topic_of_the_cluster_with_their_origin_and_reason(tmp_path: Path, url: str) -> None:
    work = open_work(tmp_path, url)
    work.send(b"one", b"two")
    work.send(b"three")
    work.close()
    found = copied(url, "cdc/dead")
    assert [message.payload for message in found] == [b"one", b"two", b"three"]
    assert [message.headers["hs.origin.offset"] for message in found] == [0, 1, 2]
    assert all(message.headers["hs.origin.topic"] == "cdc/data" for message in found)
    assert all("not a Replicate" in str(message.headers["hs.reason"]) for message in found)


def test_delayed_messages_are_copied_and_still_released_when_their_schema_comes(tmp_path: Path, url: str) -> None:
    source = SourceDatabase(5, rows=3, transactions=3)
    messages = plain(source)
    data = [message.value for message in messages if message.role == "data"]
    work = open_work(tmp_path, url)
    work.send(*data)
    assert payloads(url, "cdc/delayed") == []
    work.now_us += SCHEMA_WAIT_US + 1
    work.processor.sweep()
    work.processor.sweep()
    assert sorted(payloads(url, "cdc/delayed"), key=repr) == sorted(data, key=repr)
    work.send(*(message.value for message in messages if message.role == "metadata"))
    work.processor.sweep(last=True)
    assert work.ledger.waiting().count == 0
    assert len(payloads(url, "cdc/delayed")) == len(data), "what was released is not copied again"
    work.close()


@pytest.mark.every_combination
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["flush", "commit"])
def test_copy_has_each_message_once_when_a_crash_hits_it(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    work = open_work(tmp_path, url)
    work.send(b"one")
    original = getattr(TargetTopic, step)

    def crash(self: TargetTopic, *arguments: Any) -> None:
        if when == "after":
            original(self, *arguments)
        raise MemoryError

    raw = work.raw([b"two", b"three"])
    with monkeypatch.context() as patch:
        patch.setattr(TargetTopic, step, crash)
        with pytest.raises(MemoryError):
            work.process(raw, work.next_batch)
    work.restart()
    work.process(raw, work.next_batch)
    work.next_batch += 1
    work.send(b"four")
    work.close()
    assert payloads(url, "cdc/dead") == [b"one", b"two", b"three", b"four"]


def test_changes_are_applied_while_the_cluster_is_away_and_the_copy_continues_when_it_is_back(
    tmp_path: Path, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    source = SourceDatabase(6, rows=3, transactions=3)
    work = open_work(tmp_path, url)
    work.send(b"one")
    with killed_broker(), caplog.at_level(logging.WARNING, "headstream.replicate"):
        work.send(b"two", *(message.value for message in plain(source)))
        assert any("the copy of replicate/dead-letter at kafka://" in record.getMessage() for record in caplog.records)
        assert work.rows("SHOP", "customers")
        with pytest.raises(StorageError, match="the copy of replicate/dead-letter"):
            work.processor.sweep(last=True)
    work.send(b"three")
    work.now_us += 61 * SECOND_US
    work.processor.sweep()
    work.close()
    assert payloads(url, "cdc/dead") == [b"one", b"two", b"three"]


def test_another_topic_gets_all_messages(tmp_path: Path, url: str) -> None:
    work = open_work(tmp_path, url)
    work.send(b"one")
    work.close()
    work.options["dead_letter"] = f"{url}/cdc.other"
    work.open()
    work.send(b"two")
    work.close()
    assert payloads(url, "cdc/dead") == [b"one"]
    assert payloads(url, "cdc/other") == [b"one", b"two"]


def test_a_cluster_that_cannot_be_reached_is_refused_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copies, "_TIMEOUT_MS", 500)
    config = ReplicateConfig(
        source="file:///nowhere",
        topics=("cdc/data",),
        tables=tmp_path / "tables",
        checkpoint=tmp_path / "checkpoint",
        delayed="kafka://user:secret@127.0.0.1:9/cdc.delayed?kafka.security.protocol=SASL_PLAINTEXT",
    )
    with pytest.raises(InvalidOptionError, match="delayed") as raised:
        check_copies(config)
    assert "secret" not in str(raised.value)
