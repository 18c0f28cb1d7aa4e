"""Rights: which operations each permission opens, and that it opens no other."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import fields
from typing import Any

import pytest

from headstream.broker.accounts.permissions import Rights
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
from headstream.core.wire.statuses import Status
from headstream.errors import PermissionDeniedError

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
    "set_state": Rights.set_state,
    "send_somewhere": lambda rights, s, t: rights.send_somewhere(),
    "poll_somewhere": lambda rights, s, t: rights.poll_somewhere(),
}
SOMEWHERE = {"send_somewhere", "poll_somewhere"}
"""Operations that any one stream or topic allows, whichever one is asked for."""
EVERYWHERE = {
    "manage_servers": "read_servers",
    "read_servers": "read_servers",
    "manage_users": "read_users manage_users",
    "read_users": "read_users",
    "manage_streams": "list_streams create_stream read_stream manage_stream "
    "list_topics create_topic read_topic manage_topic set_state",
    "read_streams": "list_streams read_stream list_topics read_topic",
    "manage_topics": "list_topics create_topic read_topic manage_topic set_state",
    "read_topics": "list_topics read_topic",
    "poll_messages": "poll poll_somewhere",
    "send_messages": "send send_somewhere",
}
OF_STREAM = {
    "manage_stream": "read_stream manage_stream send send_somewhere",
    "read_stream": "read_stream poll poll_somewhere",
    "manage_topics": "list_topics create_topic read_topic manage_topic set_state poll poll_somewhere send send_somewhere",
    "read_topics": "list_topics read_topic poll poll_somewhere",
    "poll_messages": "poll poll_somewhere",
    "send_messages": "send send_somewhere",
}
OF_TOPIC = {
    "manage_topic": "read_topic manage_topic set_state poll poll_somewhere send send_somewhere",
    "read_topic": "read_topic poll poll_somewhere",
    "poll_messages": "poll poll_somewhere",
    "send_messages": "send send_somewhere",
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
    assert allowed(permissions, OTHER, TOPIC) == {*operations.split()} & SOMEWHERE


@pytest.mark.parametrize(("name", "operations"), OF_TOPIC.items())
def test_permission_of_a_topic_opens_its_operations_there(name: str, operations: str) -> None:
    permissions = of_topic(TopicPermissions(**{name: True}))
    assert allowed(permissions) == {*operations.split()}
    somewhere = {*operations.split()} & SOMEWHERE
    assert allowed(permissions, STREAM, OTHER) == somewhere == allowed(permissions, OTHER, TOPIC)


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
def test_an_operation_is_refused_when_no_permission_was_given_for_it(
    permissions: Permissions | None, operations: set[str]
) -> None:
    assert allowed(permissions) == operations


def test_everybody_may_look_at_itself_and_change_what_is_its_own() -> None:
    rights = Rights(7, None)
    rights.read_users(7)
    rights.manage_users(7)
    with pytest.raises(PermissionDeniedError, match="user 7 is not allowed to read users"):
        rights.read_users()
    rights_of_user_1 = Rights(1, None)  # without a user's id all users are meant, even where an id of one is left out
    with pytest.raises(PermissionDeniedError):
        rights_of_user_1.read_users()
    with pytest.raises(PermissionDeniedError):
        rights_of_user_1.manage_users()


@pytest.mark.parametrize(
    ("permissions", "of_streams", "of_stream", "of_other"),
    [
        (None, False, False, False),
        (Permissions(GlobalPermissions(manage_servers=True, manage_users=True)), False, False, False),
        (Permissions(GlobalPermissions(send_messages=True)), True, True, True),
        (of_stream("poll_messages"), False, True, False),
        (of_topic(TopicPermissions(poll_messages=True)), False, False, False),
    ],
    ids=["none", "servers and users", "everything", "the stream", "a topic"],
)
def test_knows_of_requires_any_right_to_the_whole(
    permissions: Permissions | None, of_streams: bool, of_stream: bool, of_other: bool
) -> None:
    rights = Rights(7, permissions)
    assert (rights.may_see(), rights.may_see(STREAM), rights.may_see(OTHER)) == (of_streams, of_stream, of_other)


def test_refusal_hides_whether_a_topic_exists_when_the_user_has_no_right_to_it() -> None:
    unknown = str(Rights(7, None).unknown())
    assert unknown.startswith("the stream or topic does not exist, or user 7 has no permission for it. ")

    def refusal(permissions: Permissions | None, stream: int, topic: int) -> str:
        with pytest.raises(PermissionDeniedError) as caught:
            Rights(7, permissions).send(stream, topic)
        assert caught.value.status == Status.UNAUTHORIZED
        return str(caught.value)

    polls = TopicPermissions(poll_messages=True)
    assert (
        refusal(None, STREAM, TOPIC)
        == refusal(of_topic(polls), STREAM, OTHER)
        == refusal(of_topic(polls), OTHER, TOPIC)
        == unknown
    )
    assert refusal(of_topic(polls), STREAM, TOPIC) != unknown
    assert refusal(of_stream("poll_messages"), STREAM, OTHER).startswith("user 7 is not allowed to send (stream 3, topic 9). ")
    with pytest.raises(
        PermissionDeniedError,
        match=r"^user 7 is not allowed to list streams\. The user needs a permission: for everything manage",
    ):
        Rights(7, None).list_streams()
    with pytest.raises(PermissionDeniedError, match=r"^user 7 is not allowed to send\. The user needs"):
        Rights(7, None).send_somewhere()
    with pytest.raises(PermissionDeniedError, match=r"^user 7 is not allowed to change the stream \(stream 3\)\. The user needs"):
        Rights(7, of_stream("poll_messages")).manage_stream(STREAM)


def test_refusal_says_where_and_what_would_allow_it() -> None:
    with pytest.raises(PermissionDeniedError) as caught:
        Rights(7, of_topic(TopicPermissions(poll_messages=True))).send(STREAM, TOPIC)
    assert caught.value.status == Status.UNAUTHORIZED
    assert str(caught.value) == (
        "user 7 is not allowed to send (stream 3, topic 5). The user needs a permission: for everything send_messages; "
        "for the stream send_messages or manage_stream or manage_topics; for the topic send_messages or manage_topic"
    )
