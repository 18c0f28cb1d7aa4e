"""PlainReading: reads partitions in order; progress is one committed offset per partition."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext, suppress

from headstream.client.consumer.fetching import Fetching
from headstream.client.consumer.partitions import PartitionReading, Partitions
from headstream.client.consumer.positions import unnamed
from headstream.client.consumer.reading import ReadingOptions
from headstream.client.transports.transport import RemoteAccess, Transport
from headstream.core.model.message import Message, ReceivedMessage
from headstream.core.model.topology import Topic
from headstream.errors import HeadstreamError, RebalancedError, ServerUnreachableError


class PlainReading(PartitionReading):
    """Reads messages for a consumer without `on_error`."""

    def __init__(self, transport: Transport, topic: Topic, options: ReadingOptions) -> None:
        self._fetching = Fetching({}, options.transform)
        super().__init__(Partitions(transport, topic, self._fetching, options))
        self._is_named = options.committer is not None
        self.may_wait = (self._is_named and isinstance(transport, RemoteAccess)) or (
            options.chain is not None and options.chain.is_async
        )
        self._had_messages = False
        self.partitions.begin()

    def take(self) -> ReceivedMessage | None:
        """Commit the previous message; return the next message if it is buffered, else None."""
        self._fetching.apply_seeks()
        self.finish()
        self.partitions.follow_if_due()
        return self._fetching.deliver()

    def finish(self) -> None:
        """Commit the message that take() returned last."""
        self._fetching.finish()
        self._store()

    def fetch(self, wanted: int | None) -> bool:
        """Poll the partitions unless messages are buffered; return whether messages are buffered."""
        self._had_messages = not self._fetching.is_empty
        with self.partitions.noting_damage():
            self.partitions.follow()
            if not self._fetching.is_empty or self.partitions.poll():
                return True
        self._store()  # skipped messages
        return False

    def wait(self, timeout_ms: float) -> None:
        """Wait for messages or a change of the group."""
        self.partitions.wait(timeout_ms, self._fetching.positions)

    def hand_out(self, count: int) -> list[ReceivedMessage]:
        """Return up to `count` messages, from several polls if one poll returns too few."""
        messages = self._fetching.hand_out(count, is_first=True)
        with suppress(HeadstreamError):  # buffered messages are returned first: the next poll raises the error again
            while messages and len(messages) < count and (self._had_messages or not self._fetching.is_at_end):
                if not self.partitions.poll():
                    break
                messages += self._fetching.hand_out(count - len(messages))
        return messages

    def put_back(self, messages: Sequence[ReceivedMessage]) -> None:
        """Undo the delivery of messages."""
        self._fetching.undeliver(messages)

    def commit(self, message: Message | None) -> None:
        """Commit all delivered messages, or one message and the earlier messages of its partition."""
        if not self._is_named:
            raise unnamed(self.partitions.topic)
        self.partitions.mark_done(message)
        self._store(is_by_hand=True)

    def _store(self, *, is_by_hand: bool = False) -> None:
        fetching, partitions = self._fetching, self.partitions
        done = fetching.committable()
        if not done or not self._is_named:
            return
        is_resting = fetching.is_idle and (is_by_hand or fetching.is_empty)
        try:
            has_changed = partitions.commit(done, is_resting=is_resting)
        except ServerUnreachableError:
            fetching.put_back(done)
            raise
        except RebalancedError:
            partitions.follow(is_resting=is_resting)
            if is_by_hand:
                raise
            return
        partitions.report_commit(done)
        if has_changed:  # an error would look like a failed commit; the next poll reports again
            with suppress(ServerUnreachableError) if is_by_hand else nullcontext():
                partitions.follow(is_resting=is_resting)

    def end(self, *, commit: bool) -> None:
        """If `commit` is set, commit the message that take() returned last. Then notify the user that no partition is read."""
        if commit:
            self.finish()
        self.partitions.end()
