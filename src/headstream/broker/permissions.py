"""Rights: what a user may do, out of the permissions that were given to it.

An operation is allowed by any one of the permissions in its row of the table: one for everything on the server, one of the
stream it is about, or one of the topic. Nothing else counts: whoever has `poll_messages` alone may poll.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from headstream.errors import HeadstreamError
from headstream.wire.commands.permissions import Permissions
from headstream.wire.records import Record
from headstream.wire.refusals import refusal
from headstream.wire.statuses import Status

__all__ = ["Rights"]


class _Row(NamedTuple):
    """The permissions of which any one allows an operation."""

    everywhere: str
    stream: str = ""
    topic: str = ""


_TOPICS: Final = "manage_streams read_streams manage_topics read_topics"
_TABLE: Final[dict[str, _Row]] = {
    "look at the server": _Row("manage_servers read_servers"),
    "look at users": _Row("manage_users read_users"),
    "manage users": _Row("manage_users"),
    "list streams": _Row("manage_streams read_streams"),
    "look at the stream": _Row("manage_streams read_streams", "manage_stream read_stream"),
    "create streams": _Row("manage_streams"),
    "change the stream": _Row("manage_streams", "manage_stream"),
    "list the stream's topics": _Row(_TOPICS, "manage_topics read_topics"),
    "look at the topic": _Row(_TOPICS, "manage_topics read_topics", "manage_topic read_topic"),
    "create topics": _Row("manage_streams manage_topics", "manage_topics"),
    "change the topic": _Row("manage_streams manage_topics", "manage_topics", "manage_topic"),
    "poll": _Row("poll_messages", "poll_messages read_stream manage_topics read_topics", "poll_messages read_topic manage_topic"),
    "set states": _Row("manage_streams manage_topics", "manage_topics", "manage_topic"),
    "send": _Row("send_messages", "send_messages manage_stream manage_topics", "send_messages manage_topic"),
}
"""Who sets messages aside hides them from every consumer: that takes the right to manage the topic, which a sender has not."""
_NOT_OF_STREAMS: Final = frozenset({"look at the server", "look at users", "manage users"})
_NOTHING: Final[frozenset[str]] = frozenset()


class Rights:
    """What one user may do; each method returns when it may, and raises PermissionDeniedError (41) when it may not.

    Streams and topics go by their ids, as in the permissions.

    Args:
        user_id: Who.
        permissions: What was given to it; None is nothing.
    """

    __slots__ = ("_everywhere", "_knows_everything", "_streams", "_topics", "_user_id")

    def __init__(self, user_id: int, permissions: Permissions | None) -> None:
        given = Permissions() if permissions is None else permissions
        self._user_id = user_id
        self._everywhere = _allowed(given.everywhere, {what: row.everywhere for what, row in _TABLE.items()})
        self._knows_everything = bool(self._everywhere - _NOT_OF_STREAMS)
        of_stream = {what: row.stream for what, row in _TABLE.items()}
        of_topic = {what: row.topic for what, row in _TABLE.items()}
        self._streams = {stream: _allowed(rights, of_stream) for stream, rights in given.streams.items()}
        self._topics = {
            (stream, topic): _allowed(rights, of_topic)
            for stream, of in given.streams.items()
            for topic, rights in of.topics.items()
        }

    def read_servers(self) -> None:
        """Look at the clients that are connected."""
        self._check("look at the server")

    def read_users(self, user_id: int = 0) -> None:
        """Look at a user, which everybody may at itself; 0 is all users."""
        if user_id != self._user_id:
            self._check("look at users")

    def manage_users(self, user_id: int = 0) -> None:
        """Make, change and delete users; with a user's id, what everybody may do to itself."""
        if user_id != self._user_id:
            self._check("manage users")

    def list_streams(self) -> None:
        """List all streams."""
        self._check("list streams")

    def read_stream(self, stream: int) -> None:
        """Look at a stream."""
        self._check("look at the stream", stream)

    def create_stream(self) -> None:
        """Make streams."""
        self._check("create streams")

    def manage_stream(self, stream: int) -> None:
        """Rename, purge and delete a stream."""
        self._check("change the stream", stream)

    def list_topics(self, stream: int) -> None:
        """List the topics of a stream."""
        self._check("list the stream's topics", stream)

    def read_topic(self, stream: int, topic: int) -> None:
        """Look at a topic, and do what there is to do with its groups."""
        self._check("look at the topic", stream, topic)

    def create_topic(self, stream: int) -> None:
        """Make topics in a stream."""
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
        """Set the states of messages of a topic: poisoned or unavailable ones are delivered to nobody unasked."""
        self._check("set states", stream, topic)

    def send_somewhere(self) -> None:
        """Send messages to some topic, whichever it is."""
        if not any("send" in rights for rights in (*self._streams.values(), *self._topics.values())):
            self._check("send")

    def knows_of(self, stream: int = 0) -> bool:
        """Return whether this user may learn which topics a stream has, or with 0 which streams there are.

        That takes a right to all of them, whatever the right is. Others are refused alike whether there is one or not.
        """
        return self._knows_everything or bool(self._streams.get(stream))

    def unknown(self) -> HeadstreamError:
        """Return the refusal (41) of a user without any right to a stream or topic, which may not be there at all."""
        return refusal(
            Status.UNAUTHORIZED,
            f"user {self._user_id} has no permission for such a stream or topic",
            advice="Look whether there is one, and ask for a permission: for everything, for the stream or for the topic",
        )

    def _check(self, what: str, stream: int = 0, topic: int = 0) -> None:
        if (
            what in self._everywhere
            or what in self._streams.get(stream, _NOTHING)
            or what in self._topics.get((stream, topic), _NOTHING)
        ):
            return
        if stream and not (self.knows_of(stream) or self._topics.get((stream, topic))):
            raise self.unknown()
        needed = _TABLE[what]
        places = (("everything", needed.everywhere), ("the stream", needed.stream), ("the topic", needed.topic))
        wanted = "; ".join(f"for {place} {' or '.join(of.split())}" for place, of in places if of)
        where = f"stream {stream}, topic {topic}" if topic else f"stream {stream}" if stream else None
        raise refusal(
            Status.UNAUTHORIZED, f"user {self._user_id} may not {what}", where=where, advice=f"It needs a permission: {wanted}"
        )


def _allowed(given: Record, rows: Mapping[str, str]) -> frozenset[str]:
    """Return the operations that permissions of one kind allow."""

    def has_any(names: Iterable[str]) -> bool:
        return any(getattr(given, name) for name in names)

    return frozenset(what for what, names in rows.items() if has_any(names.split()))
