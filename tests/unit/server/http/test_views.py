"""Views: what they show, to whom, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import headstream as hs
from headstream.core.codec.binary import encode_sent
from headstream.core.model.constructors import bool_
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import OffsetOwner
from headstream.core.model.topology import NewTopic
from tests.support.server.http_servers import Http, serving

BROWSE = "/streams/shop/topics/orders/partitions/1/messages/browse"
BINARY = "application/vnd.headstream.binary"


@pytest.fixture(scope="module")
def http() -> Iterator[Http]:
    with serving() as served:
        broker = served.dispatcher.broker
        for name in ("shop/orders", "shop/returns", "audit/logins"):
            broker.topics.create(NewTopic(TopicName.parse(name), 2, hs.Limits.WIDE))
        messages = [
            hs.Message(
                payload=b"first",
                headers=hs.Headers([("tag", hs.string("a")), ("tag", hs.string("b")), ("n", hs.uint8(7))]),
                key=b"key",
            ),
            hs.Message(
                payload=b"\x00\xff" * 2000,
                headers=hs.Headers([("raw", hs.raw(b"\x01\x02")), ("none", hs.null()), ("yes", bool_(True))]),
            ),
            hs.Message(payload=None, key=b"gone"),
            hs.Message(payload="grüße <b>".encode()),
        ]
        broker.messages.send(TopicName.parse("shop/orders"), 1, encode_sent(messages))
        broker.messages.set_state(TopicName.parse("shop/orders"), 1, [1], hs.MessageState.POISONED, reason="bad", by="ann")
        broker.offsets.commit(TopicName.parse("shop/orders"), OffsetOwner.group("billing"), {1: 1})
        yield served


def test_views_need_a_token_and_take_only_get(http: Http) -> None:
    for path in (BROWSE, "/open/overview", "/open/topics/visible", "/open/group-lags", "/console/session"):
        assert http.call("GET", path, token=None).status == 401
        refused = http.call("DELETE", path)
        assert (refused.status, refused.headers["Allow"]) == (405, "GET")
