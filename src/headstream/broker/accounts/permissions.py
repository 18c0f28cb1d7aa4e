"""Rights: the operations that a user's permissions allow.

An operation is allowed if the user has at least one permission in the operation's row: a global permission, or a permission for
the stream or the topic. No other permission is required: `poll_messages` alone allows polls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headstream.core.wire.commands.permissions import Permissions
from headstream.core.wire.records import Record
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.errors import HeadstreamError


class _Row(NamedTuple):
    """Permissions; each permission alone allows the operation."""

    everywhere: str
    stream: str = ""
    topic: str = ""


_TOPICS: Final = "manage_streams read_streams manage_topics read_topics"
_TABLE: Final[dict[str, _Row]] = {
    "read the server": _Row("manage_servers read_servers"),
    "read users": _Row("manage_users read_users"),
    "manage users": _Row("manage_users"),
    "list streams": _Row("manage_streams read_streams"),
    "read the stream": _Row("manage_streams read_streams", "manage_stream read_stream"),
    "create streams": _Row("manage_streams"),
    "change the stream": _Row("manage_streams", "manage_stream"),
    "list the stream's topics": _Row(_TOPICS, "manage_topics read_topics"),
    "read the topic": _Row(_TOPICS, "manage_topics read_topics", "manage_topic read_topic"),
    "create topics": _Row("manage_streams manage_topics", "manage_topics"),
    "change the topic": _Row("manage_streams manage_topics", "manage_topics", "manage_topic"),
    "poll": _Row("poll_messages", "poll_messages read_stream manage_topics read_topics", "poll_messages read_topic manage_topic"),
    "set states": _Row("manage_streams manage_topics", "manage_topics", "manage_topic"),
    "send": _Row("send_messages", "send_messages manage_stream manage_topics", "send_messages manage_topic"),
}
"""Setting states hides messages from every consumer, so it requires the right to manage the topic, not only the right to send."""
_NOT_OF_STREAMS: Final = frozenset({"read the server", "read users", "manage users"})
_NOTHING: Final[frozenset[str]] = frozenset()


class Rights:
    """The rights of one user. Each method raises PermissionDeniedError (41) if the operation is not allowed.

    Streams and topics are identified by id, as in the permissions.
    """

    __slots__ = ("_everywhere", "_sees_everything", "_streams", "_topics", "_user_id")

    def __init__(self, user_id: int, permissions: Permissions | None) -> None:
        given = Permissions() if permissions is None else permissions
        self._user_id = user_id
        self._everywhere = _allowed(given.everywhere, {permission: row.everywhere for permission, row in _TABLE.items()})
        self._sees_everything = bool(self._everywhere - _NOT_OF_STREAMS)
        of_stream = {permission: row.stream for permission, row in _TABLE.items()}
        of_topic = {permission: row.topic for permission, row in _TABLE.items()}
        self._streams = {stream: _allowed(rights, of_stream) for stream, rights in given.streams.items()}
        self._topics = {
            (stream, topic): _allowed(rights, of_topic)
            for stream, of in given.streams.items()
            for topic, rights in of.topics.items()
        }

    def read_servers(self) -> None:
        """List the connected clients."""
        self._check("read the server")

    def read_users(self, user_id: int = 0) -> None:
        """Read a user (0: all users); users can always read themselves."""
        if user_id != self._user_id:
            self._check("read users")

    def manage_users(self, user_id: int = 0) -> None:
        """Create, change and delete users. `user_id`: the user who needs no permission for this operation, or 0."""
        if user_id != self._user_id:
            self._check("manage users")

    def list_streams(self) -> None:
        """List all streams."""
        self._check("list streams")

    def read_stream(self, stream: int) -> None:
        """Read a stream."""
        self._check("read the stream", stream)

    def create_stream(self) -> None:
        """Create streams."""
        self._check("create streams")

    def manage_stream(self, stream: int) -> None:
        """Rename, purge and delete a stream."""
        self._check("change the stream", stream)

    def list_topics(self, stream: int) -> None:
        """List the topics of a stream."""
        self._check("list the stream's topics", stream)

    def read_topic(self, stream: int, topic: int) -> None:
        """Read a topic, and manage its groups."""
        self._check("read the topic", stream, topic)

    def create_topic(self, stream: int) -> None:
        """Create topics in a stream."""
        self._check("create topics", stream)

    def manage_topic(self, stream: int, topic: int) -> None:
        """Change, purge and delete a topic, its partitions and segments."""
        self._check("change the topic", stream, topic)

    def poll(self, stream: int, topic: int) -> None:
        """Poll messages of a topic; get, store and delete offsets."""
        self._check("poll", stream, topic)

    def send(self, stream: int, topic: int) -> None:
        """Send messages to a topic."""
        self._check("send", stream, topic)

    def set_state(self, stream: int, topic: int) -> None:
        """Set the states of a topic's messages; by default, poisoned and unavailable messages are not delivered."""
        self._check("set states", stream, topic)

    def send_somewhere(self) -> None:
        """Send messages to at least one topic."""
        if not any("send" in rights for rights in (*self._streams.values(), *self._topics.values())):
            self._check("send")

    def poll_somewhere(self) -> None:
        """Poll messages of at least one topic."""
        if not any("poll" in rights for rights in (*self._streams.values(), *self._topics.values())):
            self._check("poll")

    def may_see(self, stream: int = 0) -> bool:
        """Return whether the user can read all topics of a stream (0: all streams)."""
        return self._sees_everything or bool(self._streams.get(stream))

    def unknown(self) -> HeadstreamError:
        """Return the error (41) for a user without rights to a stream or topic, whether it exists or not."""
        return refusal(
            Status.UNAUTHORIZED,
            f"the stream or topic does not exist, or user {self._user_id} has no permission for it",
            advice="Check the name, or ask an administrator for permission",
        )

    def _check(self, permission: str, stream: int = 0, topic: int = 0) -> None:
        if (
            permission in self._everywhere
            or permission in self._streams.get(stream, _NOTHING)
            or permission in self._topics.get((stream, topic), _NOTHING)
        ):
            return
        if stream and not (self.may_see(stream) or self._topics.get((stream, topic))):
            raise self.unknown()
        needed = _TABLE[permission]
        levels = (("everything", needed.everywhere), ("the stream", needed.stream), ("the topic", needed.topic))
        wanted = "; ".join(f"for {level} {' or '.join(of.split())}" for level, of in levels if of)
        where = f"stream {stream}, topic {topic}" if topic else f"stream {stream}" if stream else None
        raise refusal(
            Status.UNAUTHORIZED,
            f"user {self._user_id} is not allowed to {permission}",
            where=where,
            advice=f"The user needs a permission: {wanted}",
        )


def _allowed(given: Record, rows: Mapping[str, str]) -> frozenset[str]:
    def has_any(names: Iterable[str]) -> bool:
        return any(getattr(given, name) for name in names)

    return frozenset(permission for permission, names in rows.items() if has_any(names.split()))
