"""Numbered batches at a server: ids of users, repeats, purges, backups and repair."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstream.broker.broker import Broker
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.core.model.producers import BatchNumber
from headstream.core.model.topology import Limits, NewTopic
from headstream.core.wire.commands.permissions import Permissions, StreamPermissions, TopicPermissions
from headstream.core.wire.commands.topics import PurgeTopic
from headstream.core.wire.extensions.producers import AppendedBatch, AppendNumbered, InitProducer, NewProducer, ReleaseProducer
from headstream.core.wire.refusals import status_of
from headstream.errors import ProducerFencedError, SequenceError
from headstream.log.checks.backup import Backup
from headstream.log.checks.verification import Verification
from headstream.log.opening import open_directory
from headstream.log.system.files import OsFiles
from tests.support.server.servers import Peer, Server

AT = ("shop", "orders")
NAME = TopicName(*AT)
BATCH = encode_sent([Message(payload=b"a"), Message(payload=b"b")])


def repeated(found: AppendedBatch) -> AppendedBatch:
    return AppendedBatch(found.offset, found.timestamp_us, found.count, True)


def test_batch_is_appended_once_a_partition_when_it_is_sent_again(peer: Peer) -> None:
    producer = peer.ask(InitProducer()).producer_id
    for partition in (1, 2):
        command = AppendNumbered(*AT, partition, producer, 0, 0, BATCH)
        found = peer.ask(command)
        assert (found.offset, found.count, found.is_repeat) == (0, 2, False)
        assert found.timestamp_us > 0
        assert peer.ask(command) == repeated(found)
    with pytest.raises(SequenceError) as unexpected:
        peer.ask(AppendNumbered(*AT, 1, producer, 0, 5, BATCH))
    assert status_of(unexpected.value, is_extended=True) == 20020
    assert not peer.ask(AppendNumbered(*AT, 1, producer, 1, 0, BATCH)).is_repeat
    with pytest.raises(ProducerFencedError) as fenced:
        peer.ask(AppendNumbered(*AT, 1, producer, 0, 2, BATCH))
    assert status_of(fenced.value, is_extended=True) == 20021


def test_producer_gets_an_id_of_its_own_when_it_asks(peer: Peer) -> None:
    found = [peer.ask(InitProducer()) for _ in range(10)]
    assert len(set(found)) == 10
    assert all(isinstance(each, NewProducer) and each.epoch == 0 for each in found)


def test_id_is_refused_when_it_is_another_users(server: Server, peer: Peer) -> None:
    rights = Permissions(streams={1: StreamPermissions(topics={1: TopicPermissions(send_messages=True)})})
    server.add_user("ann", rights)
    ann = server.ours("ann")
    roots, anns = peer.ask(InitProducer()).producer_id, ann.ask(InitProducer()).producer_id
    assert ann.status(AppendNumbered(*AT, 1, anns, 0, 0, BATCH)) == 0
    assert ann.status(AppendNumbered(*AT, 1, roots, 0, 0, BATCH)) == 41
    assert ann.status(ReleaseProducer(*AT, roots)) == 41
    assert peer.status(AppendNumbered(*AT, 1, anns, 0, 2, BATCH)) == 41


def test_producer_may_begin_anywhere_when_it_was_released(peer: Peer) -> None:
    producer = peer.ask(InitProducer()).producer_id
    peer.ask(AppendNumbered(*AT, 1, producer, 0, 0, BATCH))
    peer.ask(ReleaseProducer(*AT, producer))
    assert not peer.ask(AppendNumbered(*AT, 1, producer, 0, 0, BATCH)).is_repeat


def test_batch_is_stored_anew_when_its_topic_was_purged(peer: Peer) -> None:
    command = AppendNumbered(*AT, 1, peer.ask(InitProducer()).producer_id, 0, 0, BATCH)
    peer.ask(command)
    peer.ask(PurgeTopic(*AT))
    assert not peer.ask(command).is_repeat


def test_backup_knows_what_it_has_when_a_batch_comes_again_and_gives_no_id_twice(tmp_path: Path) -> None:
    broker = Broker(open_directory(str(tmp_path / "log")))
    broker.topics.create(NewTopic(NAME, 1, Limits.IGGY))
    producer = broker.messages.new_producer(1).producer_id
    first = broker.messages.append(NAME, 1, BATCH, BatchNumber(producer, 0, 0))
    Backup(str(tmp_path / "log"), str(tmp_path / "copy"), OsFiles()).run(None)
    broker.messages.append(NAME, 1, BATCH, BatchNumber(producer, 0, 2))
    later = broker.messages.new_producer(1).producer_id
    broker.close()
    copy = Broker(open_directory(str(tmp_path / "copy")))
    again = copy.messages.append(NAME, 1, BATCH, BatchNumber(producer, 0, 0))
    assert (again.offset, again.is_repeat) == (first.offset, True)
    assert not copy.messages.append(NAME, 1, BATCH, BatchNumber(producer, 0, 2)).is_repeat
    assert copy.messages.new_producer(1).producer_id > later
    copy.close()


def test_log_is_sound_when_batches_were_numbered(tmp_path: Path) -> None:
    broker = Broker(open_directory(str(tmp_path)))
    broker.topics.create(NewTopic(NAME, 1, Limits.IGGY))
    broker.messages.append(NAME, 1, BATCH, BatchNumber(broker.messages.new_producer(1).producer_id, 0, 0))
    broker.close()
    assert list(Verification(str(tmp_path), OsFiles()).run()) == []
