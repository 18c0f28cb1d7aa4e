"""The client's calls for the states of messages."""

from __future__ import annotations

from collections.abc import Iterable

from headstream.client.admin.numbered import find_topic_name
from headstream.client.checks import check_many, check_text, check_whole
from headstream.client.transports.transport import Transport
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import StateChange, parse_state
from headstream.core.model.removals import Removal

__all__ = ["States"]


class States:
    """The client's calls for the states of messages."""

    def _open_transport(self) -> Transport:
        raise NotImplementedError

    def set_state(
        self,
        topic: str | TopicName,
        partition: int,
        offsets: int | Iterable[int],
        state: str | int,
        *,
        reason: str = "",
        by: str = "",
    ) -> None:
        """Set the state of messages and record the reason; the change is durable when this returns.

        Args:
            topic: `stream/topic`.
            partition: From 1.
            offsets: Offsets of the messages, at least one.
            state: `available`, `unavailable`, `poisoned`, `marked_for_deletion`, or a code from 1 to 255.
            reason: The reason, at most 1,000 bytes.
            by: The author, at most 255 bytes; a server always records the logged-in user instead.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
            OffsetOutOfRangeError: one of the messages does not exist; nothing is changed.
            LogLockedError: another process is the writer of an embedded log.
        """
        check_whole("partition", partition)
        given = (offsets,) if isinstance(offsets, int) else check_many("offsets", offsets)
        wanted = [check_whole("an offset", offset) for offset in given]
        code = parse_state(state) if isinstance(state, str) else check_whole("state", state)
        check_text("reason", reason), check_text("by", by)
        transport = self._open_transport()
        transport.messages.set_state(find_topic_name(transport, topic), partition, wanted, code, reason=reason, by=by)

    def remove_marked(self, topic: str | TopicName, partition: int, *, reason: str) -> Removal:
        """Remove messages of a partition from the disk that were marked for deletion, before their grace is over.

        Args:
            topic: `stream/topic`.
            partition: From 1.
            reason: The reason with which they were marked; others stay.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
            LegalHoldError: the topic is under legal hold; nothing is removed.
            CorruptLogError: a segment is damaged; its messages stay, all others are removed.
            LogLockedError: another process is the writer of an embedded log.
        """
        check_whole("partition", partition)
        check_text("reason", reason)
        transport, removed = self._open_transport(), Removal(left_count=1)
        name = find_topic_name(transport, topic)
        while removed.left_count:
            removed += transport.messages.remove_marked(name, partition, reason)
        return removed

    def states(self, topic: str | TopicName, partition: int = 1) -> list[StateChange]:
        """Return every message of a partition that is not available, by offset, with reason, author and time.

        Args:
            topic: `stream/topic`.
            partition: From 1.

        Raises:
            TopicNotFoundError, PartitionNotFoundError: the topic or the partition does not exist.
        """
        check_whole("partition", partition)
        transport = self._open_transport()
        return transport.messages.states(find_topic_name(transport, topic), partition)
