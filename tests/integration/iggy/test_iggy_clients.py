"""Iggy's own Python clients against the running server: all that they can do, and what they tell of it."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.integration.iggy.conftest import ClientError, IggyClient
from tests.support.server.server_process import ServerProcess

Open = Callable[..., IggyClient]

FIRST, LAST, NEXT = {"strategy": "First"}, {"strategy": "Last"}, {"strategy": "Next"}


def offset(value: int) -> dict[str, Any]:
    return {"strategy": "Offset", "value": value}


def since(value: int) -> dict[str, Any]:
    return {"strategy": "Timestamp", "value": value}


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A stream of the test's own."""
    return str(request.node.name)


@pytest.fixture
def client(server: ServerProcess, open_client: Open, name: str) -> IggyClient:
    """A client with a stream that has topic `eu` of two partitions."""
    client = open_client(server)
    client.call("create_stream", name)
    client.call("create_topic", name, "eu", 2)
    return client


def numbered(count: int) -> list[str]:
    return [f"message {number}" for number in range(count)]


def payloads(messages: list[dict[str, Any]]) -> list[str]:
    return [message["payload"] for message in messages]


def test_a_wrong_password_is_refused_and_the_right_one_taken(server: ServerProcess, open_client: Open) -> None:
    client = open_client(server, login=False)
    with pytest.raises(ClientError, match="InvalidCredentials"):
        client.call("login_user", "iggy", "wrong")
    client.call("login_user", "iggy", "iggy")


def test_streams_and_topics_are_made_and_found(client: IggyClient, name: str) -> None:
    stream = client.call("get_stream", name)
    assert (stream["name"], stream["topics_count"], stream["messages_count"]) == (name, 1, 0)
    assert client.call("get_stream", stream["id"]) == stream
    topic = client.call("get_topic", name, "eu")
    assert (topic["id"], topic["name"], topic["messages_count"]) == (1, "eu", 0)
    assert client.call("get_topic", stream["id"], 1) == topic
    client.call("create_topic", stream["id"], "log", 1, "gzip", 5, 3)
    assert client.call("get_topic", name, 5)["name"] == "log"
    assert client.call("get_stream", "nowhere") is None
    assert client.call("get_topic", name, 99) is None


@pytest.mark.parametrize(
    ("call", "args", "error"),
    [
        ("create_stream", ["{name}"], "StreamNameAlreadyExists"),
        ("create_topic", ["{name}", "eu", 1], "TopicNameAlreadyExists"),
        ("create_topic", ["{name}", "other", 1, None, 1], "TopicIdAlreadyExists"),
        ("create_topic", ["{name}", "wide", 1001], "TooManyPartitions"),
        ("create_topic", ["nowhere", "eu", 1], "StreamNameNotFound"),
        ("send_messages", ["{name}", "nowhere", 1, ["a"]], "TopicNameNotFound"),
        ("send_messages", ["{name}", "eu", 9, ["a"]], "PartitionNotFound"),
        ("poll_messages", ["{name}", "eu", 9, FIRST, 1, False], "PartitionNotFound"),
        ("poll_messages", [4_000_000, "eu", 1, FIRST, 1, False], "StreamIdNotFound"),
        ("poll_messages", ["{name}", "eu", 1, FIRST, 0, False], "InvalidMessagesCount"),
    ],
)
def test_an_error_has_the_name_that_the_client_knows(
    client: IggyClient, name: str, call: str, args: list[Any], error: str
) -> None:
    with pytest.raises(ClientError, match=f"^{error}"):
        client.call(call, *[name if argument == "{name}" else argument for argument in args])
    assert client.call("get_stream", name)["name"] == name


def test_what_is_sent_is_polled_in_every_way(client: IggyClient, name: str) -> None:
    began_us = time.time_ns() // 1000
    texts = [*numbered(9), "grüße ✉ — 10"]
    for text in texts:
        client.call("send_messages", name, "eu", 1, [text])

    def poll(how: dict[str, Any], count: int = 100, *, partition: int = 1, auto_commit: bool = False) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = client.call("poll_messages", name, "eu", partition, how, count, auto_commit)
        return found

    messages = poll(FIRST)
    assert payloads(messages) == texts
    assert [message["offset"] for message in messages] == list(range(10))
    assert all(message["checksum"] == zlib.crc32(message["payload"].encode()) for message in messages)
    assert all(message["length"] == len(message["payload"].encode()) for message in messages)
    assert {message["state"] for message in messages} == {"Available"}
    assert len({message["id"] for message in messages} - {0}) == 10
    times = [message["timestamp"] for message in messages]
    assert began_us <= times[0] <= times[-1] <= time.time_ns() // 1000
    assert times == sorted(times)
    assert payloads(poll(FIRST, 3)) == texts[:3]
    assert payloads(poll(LAST, 3)) == texts[-3:]
    assert payloads(poll(offset(4), 2)) == texts[4:6]
    assert poll(offset(10)) == []
    assert payloads(poll(since(times[6]))) == [text for text, sent_us in zip(texts, times, strict=True) if sent_us >= times[6]]
    assert poll(since(times[-1] + 1)) == []
    assert poll(FIRST, partition=2) == []
    assert payloads(poll(NEXT, 4)) == texts[:4]
    assert [payloads(poll(NEXT, 4, auto_commit=True)) for _ in range(4)] == [texts[:4], texts[4:8], texts[8:], []]
    assert client.call("get_topic", name, "eu")["messages_count"] == 10


def test_a_thousand_messages_of_one_send_arrive_in_order(client: IggyClient, name: str) -> None:
    client.call("send_messages", name, "eu", 2, numbered(1000))
    messages = client.call("poll_messages", name, "eu", 2, FIRST, 1000, False)
    assert payloads(messages) == numbered(1000)
    assert [message["offset"] for message in messages] == list(range(1000))


def test_a_message_of_a_megabyte_arrives_whole(client: IggyClient, name: str) -> None:
    client.call("send_messages", name, "eu", 1, ["m" * 1_000_000])
    [message] = client.call("poll_messages", name, "eu", 1, FIRST, 1, False)
    assert message["payload"] == "m" * 1_000_000
    with pytest.raises(ClientError, match="TooBigMessagePayload"):
        client.call("send_messages", name, "eu", 1, ["m" * 10_000_001])
    assert client.call("get_topic", name, "eu")["messages_count"] == 1


def test_two_clients_share_what_is_stored_and_committed(
    server: ServerProcess, client: IggyClient, open_client: Open, name: str
) -> None:
    other = open_client(server)
    client.call("send_messages", name, "eu", 1, numbered(5))
    assert payloads(other.call("poll_messages", name, "eu", 1, NEXT, 3, True)) == numbered(5)[:3]
    assert payloads(client.call("poll_messages", name, "eu", 1, NEXT, 3, True)) == numbered(5)[3:]


def test_a_client_goes_on_behind_a_restart_of_a_server_that_was_killed(tmp_path: Path, open_client: Open, name: str) -> None:
    with ServerProcess(tmp_path / "log") as server:
        client = open_client(server)
        client.call("create_stream", name)
        client.call("create_topic", name, "eu", 1)
        client.call("send_messages", name, "eu", 1, numbered(10))
        assert len(client.call("poll_messages", name, "eu", 1, NEXT, 4, True)) == 4
        server.kill()
        with server.again():
            log_in_again(client)
            assert payloads(client.call("poll_messages", name, "eu", 1, FIRST, 100, False)) == numbered(10)
            assert payloads(client.call("poll_messages", name, "eu", 1, NEXT, 100, True)) == numbered(10)[4:]
            client.call("send_messages", name, "eu", 1, ["after"])
            assert payloads(client.call("poll_messages", name, "eu", 1, NEXT, 100, True)) == ["after"]


def log_in_again(client: IggyClient) -> None:
    """Log in, as these clients leave to the program after the connection was lost; the first call may tell of the loss."""
    try:
        client.call("login_user", "iggy", "iggy")
    except ClientError:
        client.call("connect")
        client.call("login_user", "iggy", "iggy")
