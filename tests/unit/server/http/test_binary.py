"""Messages over HTTP as bytes: the payloads and replies of TCP, for what JSON cannot spell and takes too long for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message
from headstream.core.model.polling import PollingKind
from headstream.core.wire.extensions.epochs import StageBatch
from headstream.core.wire.extensions.messages import AppendMessages, FetchedMessages, FetchMessages, FirstOffset
from headstream.core.wire.records import BINARY, Command
from headstream.server.config.http_settings import HttpSettings
from tests.support.server.http_servers import Answer, Http, serving

TOPIC = {"name": "t", "partitions_count": 2, "compression_algorithm": "none", "message_expiry": 0, "max_topic_size": 0}
TWICE = Message(payload=bytes(range(256)) * 10, headers=Headers([("a", 1), ("a", "two")]), id=7)
SENT = encode_sent([TWICE])
APPEND = AppendMessages("s", "t", 1, SENT)
FETCH = FetchMessages("s", "t", 1, PollingKind.FIRST, 0, 100)


@pytest.fixture(scope="module")
def http() -> Iterator[Http]:
    with serving(HttpSettings(max_body_bytes=1000, max_binary_bytes=50_000)) as served:
        assert served.call("POST", "/streams", {"name": "s"}).status == 200
        assert served.call("POST", "/streams/s/topics", TOPIC).status == 200
        yield served


def ask(http: Http, command: Command[Any], *, path: str | None = None, body: bytes | None = None, accept: str = BINARY) -> Answer:
    """Ask by bytes; for something else than the command where path or body say so."""
    headers = {"Content-Type": BINARY, "Accept": accept}
    return http.call("POST", path or command.to_path(), command.encode() if body is None else body, headers=headers)


def test_messages_are_appended_and_fetched_as_they_are_over_tcp(http: Http) -> None:
    answer = ask(http, APPEND)
    assert (answer.status, answer.headers["Content-Type"]) == (200, BINARY)
    assert AppendMessages.decode_reply(answer.body) == FirstOffset(0)
    assert ask(http, APPEND, accept="application/json").json == {"offset": 1}
    fetched: FetchedMessages = FetchMessages.decode_reply(ask(http, FETCH).body)
    assert (fetched.count, fetched.end_offset) == (2, 2)
    assert [(found.payload, found.headers, found.id) for found in decode_polled(fetched.messages)] == [
        (TWICE.payload, TWICE.headers, 7)
    ] * 2
    staged = ask(http, StageBatch("w", 1, "p", 0, "s", "t", 1, True, SENT), accept="application/json")
    assert (staged.status, staged.json["count"]) == (201, 1)


def test_bytes_are_refused_by_name_when_they_are_no_request(http: Http) -> None:
    for answer, status, text in (
        (ask(http, APPEND, path="/streams/s/topics/other/partitions/1/messages/append"), 400, b"the topic in the body differs"),
        (ask(http, APPEND, path="/streams/s/topics/t/partitions/2/messages/append"), 400, b"the partition in the body differs"),
        (ask(http, APPEND, body=b"\x01"), 400, b"bytes"),
        (ask(http, APPEND, body=b""), 400, b"required"),
        (ask(http, APPEND, body=APPEND.encode() + bytes(50_000)), 413, b"at most 50000 bytes"),
        (ask(http, APPEND, path="/streams"), 415, b"application/json"),
    ):
        assert (answer.status, text in answer.body) == (status, True), answer
    cut = ask(http, APPEND, body=APPEND.encode()[:-1])
    assert cut.status == 400
    assert cut.json["id"] != 0
    assert ask(http, AppendMessages("s", "none", 1, SENT)).status in (400, 404)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_bytes_at_random_are_answered_without_a_fault(http: Http, data: st.DataObject) -> None:
    command: Command[Any] = data.draw(st.sampled_from((APPEND, FETCH)))
    whole = bytearray(command.encode())
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=3)):
        if not (command is FETCH and at > len(whole) - 8):  # it may be asked to wait for weeks
            whole[at] = value
    assert ask(http, command, body=bytes(whole[: data.draw(st.integers(1, len(whole)))])).status < 500
