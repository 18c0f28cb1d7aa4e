"""Rights: which operations each permission opens, and that it opens no other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest

from headstream.broker.permissions import Rights
from headstream.errors import PermissionDeniedError
from headstream.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headstream.wire.statuses import Status

STREAM, TOPIC, OTHER = 3, 5, 9
OPERATIONS: dict[str, Callable[[Rights, int, int], None]] = {
    "read_servers": lambda rights, s, t: rights.read_servers(),
    "read_users": lambda rights, s, t: rights.read_users(8),
    "manage_users": lambda rights, s, t: rights.manage_users(),
    "list_streams": lambda rights, s, t: rights.list_streams(),
    "create_stream": lambda rights, s, t: rights.create_stream(),
    "read_stream": lambda rights, s, t: rights.read_stream(s),
    "manage_stream": lambda rights, s, t: rights.manage_stream(s),
    "list_topics": lambda rights, s, t: rights.list_topics(s),
    "create_topic": lambda rights, s, t: rights.create_topic(s),
    "read_topic": Rights.read_topic,
    "manage_topic": Rights.manage_topic,
    "poll": Rights.poll,
    "send": Rights.send,
}
EVERYWHERE = {
    "manage_servers": "read_servers",
    "read_servers": "read_servers",
    "manage_users": "read_users manage_users",
    "read_users": "read_users",
    "manage_streams": "list_streams create_stream read_stream manage_stream list_topics create_topic read_topic manage_topic",
    "read_streams": "list_streams read_stream list_topics read_topic",
    "manage_topics": "list_topics create_topic read_topic manage_topic",
    "read_topics": "list_topics read_topic",
    "poll_messages": "poll",
    "send_messages": "send",
}
OF_STREAM = {
    "manage_stream": "read_stream manage_stream send",
    "read_stream": "read_stream poll",
    "manage_topics": "list_topics create_topic read_topic manage_topic poll send",
    "read_topics": "list_topics read_topic poll",
    "poll_messages": "poll",
    "send_messages": "send",
}
OF_TOPIC = {
    "manage_topic": "read_topic manage_topic poll send",
    "read_topic": "read_topic poll",
    "poll_messages": "poll",
    "send_messages": "send",
}


def allowed(permissions: Permissions | None, stream: int = STREAM, topic: int = TOPIC) -> set[str]:
    rights, found = Rights(7, permissions), set()
    for name, ask in OPERATIONS.items():
        with suppress(PermissionDeniedError):
            ask(rights, stream, topic)
            found.add(name)
    return found


def of_stream(name: str) -> Permissions:
    given: dict[str, Any] = {name: True}
    return Permissions(streams={STREAM: StreamPermissions(**given)})


def of_topic(given: TopicPermissions) -> Permissions:
    return Permissions(streams={STREAM: StreamPermissions(topics={TOPIC: given})})


def test_tables_are_about_all_permissions_and_operations() -> None:
    for table, kind in ((EVERYWHERE, GlobalPermissions), (OF_STREAM, StreamPermissions), (OF_TOPIC, TopicPermissions)):
        assert [*table] == [field.name for field in fields(kind) if field.name != "topics"]
    assert {what for of in EVERYWHERE.values() for what in of.split()} == {*OPERATIONS}


@pytest.mark.parametrize(("name", "operations"), EVERYWHERE.items())
def test_permission_for_everything_opens_its_operations_everywhere(name: str, operations: str) -> None:
    permissions = Permissions(GlobalPermissions(**{name: True}))
    assert allowed(permissions) == {*operations.split()} == allowed(permissions, OTHER, OTHER)


@pytest.mark.parametrize(("name", "operations"), OF_STREAM.items())
def test_permission_of_a_stream_opens_its_operations_there(name: str, operations: str) -> None:
    permissions = of_stream(name)
    assert allowed(permissions) == {*operations.split()} == allowed(permissions, STREAM, OTHER)
    assert allowed(permissions, OTHER, TOPIC) == set()


@pytest.mark.parametrize(("name", "operations"), OF_TOPIC.items())
def test_permission_of_a_topic_opens_its_operations_there(name: str, operations: str) -> None:
    permissions = of_topic(TopicPermissions(**{name: True}))
    assert allowed(permissions) == {*operations.split()}
    assert allowed(permissions, STREAM, OTHER) == set() == allowed(permissions, OTHER, TOPIC)


@pytest.mark.parametrize(
    ("permissions", "operations"),
    [
        (None, set()),
        (Permissions(), set()),
        (Permissions(streams={STREAM: StreamPermissions()}), set()),
        (of_topic(TopicPermissions()), set()),
        (Permissions(GlobalPermissions.all()), {*OPERATIONS}),
    ],
    ids=["none", "empty", "a stream without anything", "a topic without anything", "all"],
)
def test_what_was_not_given_is_refused(permissions: Permissions | None, operations: set[str]) -> None:
    assert allowed(permissions) == operations


def test_everybody_may_look_at_itself_and_change_what_is_its_own() -> None:
    rights = Rights(7, None)
    rights.read_users(7)
    rights.manage_users(7)
    with pytest.raises(PermissionDeniedError, match="user 7 may not look at users"):
        rights.read_users()


def test_refusal_says_where_and_what_would_allow_it() -> None:
    with pytest.raises(PermissionDeniedError) as caught:
        Rights(7, of_topic(TopicPermissions(poll_messages=True))).send(STREAM, TOPIC)
    assert caught.value.status == Status.UNAUTHORIZED
    assert str(caught.value) == (
        "user 7 may not send (stream 3, topic 5). It needs a permission: for everything send_messages; "
        "for the stream send_messages or manage_stream or manage_topics; for the topic send_messages or manage_topic"
    )
