"""Clients that are gone before their reply, as a browser that scrolls past what it has asked for."""

from __future__ import annotations

import logging
import socket
import time

import pytest

import headstream as hs
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import NewTopic
from tests.support.server.http_servers import serving

TOPIC = TopicName("shop", "orders")
BROWSE = "/streams/shop/topics/orders/partitions/1/messages/browse?count=500"
REQUEST = "GET {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\r\n"
CLIENTS = 100
"""A tenth of them go while their reply is made, and nobody knows which."""


def test_clients_that_are_gone_before_their_reply_are_no_errors(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), serving() as http:
        http.dispatcher.broker.topics.create(NewTopic(TOPIC, 1, hs.Limits.WIDE))
        http.dispatcher.broker.messages.send(TOPIC, 1, encode_sent([hs.Message(payload=b"x" * 500) for _ in range(500)]))
        for number in range(CLIENTS):
            with socket.create_connection((http.host, http.port)) as lost:
                lost.sendall(REQUEST.format(BROWSE, http.token).encode())
                time.sleep(0.002 * (number % 6))
        assert http.call("GET", "/open/topics/visible").status == 200
        time.sleep(0.5)  # replies that are being made
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
