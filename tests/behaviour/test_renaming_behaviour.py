"""Streams and topics with other names: everything in them stays, and the old names are gone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.core.model.producers import Appended
from headstream.errors import AlreadyExistsError, InvalidInputError, StreamNotFoundError, TopicNotFoundError
from headstream.log.log import Log
from tests.behaviour.conftest import Place


def test_a_topic_keeps_everything_but_its_name_when_it_is_renamed(log: hs.Client, send: Callable[..., None]) -> None:
    send(b"a", b"b")
    log.update_topic("shop/orders", retention_us=60_000_000_000, deduplication_count=10)
    assert [message.payload for message in log.poll("shop/orders", consumer="me", count=1, auto_commit=True)] == [b"a"]
    before = log.topic("shop/orders")
    renamed = log.rename_topic("shop/orders", "purchases")
    assert renamed == log.topic("shop/purchases")
    assert (renamed.full_name, renamed.id, renamed.created_us) == ("shop/purchases", before.id, before.created_us)
    assert (renamed.retention_us, renamed.deduplication_count, renamed.identity) == (60_000_000_000, 10, before.identity)
    send(b"c", topic="shop/purchases")
    assert [message.payload for message in log.poll("shop/purchases", consumer="me")] == [b"b", b"c"]
    with pytest.raises(TopicNotFoundError):
        log.topic("shop/orders")
    log.create_topic("shop/orders")
    assert log.poll("shop/orders") == []


def test_what_is_sent_while_its_topic_is_renamed_is_stored_once_and_acknowledged(tmp_path: Path) -> None:
    with hs.connect((tmp_path / "log").as_uri()) as log:
        log.create_topic("shop/orders")
        append = Log.append

        def rename_behind(self: Log, *arguments: Any) -> Appended:
            appended = append(self, *arguments)
            if any(topic.name == "orders" for topic in log.topics()):
                log.rename_topic("shop/orders", "purchases")
            return appended

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Log, "append", rename_behind)
            with log.producer("shop/orders") as producer:
                producer.send(b"once")
                producer.flush()
        assert [message.payload for message in log.poll("shop/purchases")] == [b"once"]


def test_a_stream_keeps_its_topics_when_it_is_renamed(place: Place, log: hs.Client, send: Callable[..., None]) -> None:
    send(b"a")
    renamed = log.rename_stream("shop", "store")
    assert (renamed.name, renamed.topics) == ("store", ("carts", "orders"))
    assert [message.payload for message in place.connect().poll("store/orders")] == [b"a"]
    assert [stream.name for stream in log.streams()] == ["store"]
    with pytest.raises(StreamNotFoundError):
        log.stream("shop")


def test_renaming_is_refused_when_the_name_is_taken_or_no_name_or_nobody_has_the_old_one(log: hs.Client) -> None:
    log.create_stream("other")
    with pytest.raises(AlreadyExistsError, match="carts"):
        log.rename_topic("shop/orders", "carts")
    with pytest.raises(AlreadyExistsError, match="other"):
        log.rename_stream("shop", "other")
    with pytest.raises(TopicNotFoundError):
        log.rename_topic("shop/none", "new")
    with pytest.raises(StreamNotFoundError):
        log.rename_stream("none", "new")
    for rename in (lambda: log.rename_topic("shop/orders", ""), lambda: log.rename_stream("shop", "a.b")):
        with pytest.raises(InvalidInputError):
            rename()
    assert log.rename_topic("shop/orders", "orders") == log.topic("shop/orders")
    assert log.rename_stream("shop", "shop") == log.stream("shop")
