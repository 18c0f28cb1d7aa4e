"""KafkaMembership: a Kafka group member, which is a librdkafka consumer that subscribes to one topic and fetches no messages.

The member's partitions are paused; a PartitionReader reads them. One thread per member makes all calls of the librdkafka
consumer, which allows one call at a time. The thread commits, and handles rebalances, so that other members can join while a
message is processed. A revoked partition stays assigned until its messages in progress are committed and the consumer releases
the partition, or until Kafka reassigns it after the session timeout (max.poll.interval.ms).
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from headstream.client.transports.kafka.cluster import Cluster
from headstream.client.transports.kafka.refusals import TRANSIENT, error_of, refused
from headstream.core.model.groups import Assignment
from headstream.core.model.identifiers import TopicName
from headstream.errors import ClosedError, HeadstreamError, OutcomeUnknownError, RebalancedError, ServerUnreachableError
from headstream.forks import keep_forever, register_for_forks

_LEAST_SESSION_MS: Final = 6000
"""Minimum session timeout, milliseconds; brokers reject shorter timeouts by default (group.min.session.timeout.ms)."""
_MOST_SESSION_MS: Final = 10_000
"""Maximum session timeout, milliseconds, after which the broker removes a member whose process sends no heartbeats."""
_HEARTBEAT_MS: Final = 1000
"""Heartbeat interval, milliseconds; a heartbeat's response announces a rebalance."""
_SLICE_S: Final = 0.1
"""Interval at which waits check their condition, seconds."""
_POLL_S: Final = 0.05
"""Interval at which a member handles rebalances, seconds: a check of a queue, without a request."""
_SETTLE_S: Final = 3.0
"""Maximum time that a member without a partition waits for another member to release one, seconds."""
_DESCRIBE_S: Final = 0.5
"""Interval at which the group is described while a member waits for its first assignment, seconds."""
_DESCRIBE_LIMIT_S: Final = 2.0
"""Timeout of one description of the group, seconds."""
_timed_out: Final[int] = KafkaError._TIMED_OUT  # type: ignore[attr-defined,unused-ignore]
_fenced: Final[int] = KafkaError.FENCED_INSTANCE_ID  # type: ignore[attr-defined,unused-ignore]


class _Commit:
    """A commit that the member's thread executes."""

    def __init__(self, offsets: list[TopicPartition]) -> None:
        self.offsets = offsets
        self.is_done = threading.Event()
        self.error: Any = None

    def run(self, consumer: Any) -> None:
        """Commit; store Kafka's error, if any."""
        try:
            done = consumer.commit(offsets=self.offsets, asynchronous=False)
            self.error = next((each.error for each in done or () if each.error is not None), None)
        except KafkaException as error:
            self.error = error_of(error)
        except RuntimeError as error:  # the consumer is closed
            self.error = error
        self.is_done.set()


class KafkaMembership:
    """One member of a group, for one topic; the member can keep revoked partitions for the session timeout."""

    def __init__(self, cluster: Cluster, topic: TopicName, group: str, session_timeout_ms: float) -> None:
        self.group = group
        self.topic = topic
        self._cluster = cluster
        self._name = cluster.names.kafka_name(topic)
        self._changed = threading.Condition()
        self._generation = 1
        self._owned: dict[int, int] = {}
        self._revoking: set[int] = set()
        self._error: HeadstreamError | None = None
        self._has_joined = False
        self._is_closing = False
        self._is_resting = True
        self._commits: deque[_Commit] = deque()
        session_ms = int(min(max(session_timeout_ms, _LEAST_SESSION_MS), _MOST_SESSION_MS))
        self._release_timeout_s = max(session_timeout_ms, session_ms) / 1000
        strategy = cluster.address.settings.get("partition.assignment.strategy", "cooperative-sticky")
        self._is_cooperative = "cooperative" in strategy
        # Identifies the member in group descriptions; Consumer.memberid() can block indefinitely while another thread polls.
        self._client_id = f"{cluster.address.settings.get('client.id', 'headstream')}-{uuid.uuid4().hex[:12]}"
        self._consumer: Any = cluster.make(
            Consumer,
            group_id=group,
            client_id=self._client_id,
            partition_assignment_strategy=strategy,
            enable_auto_commit=False,
            enable_auto_offset_store=False,
            auto_offset_reset="latest",
            session_timeout_ms=session_ms,
            heartbeat_interval_ms=min(_HEARTBEAT_MS, session_ms // 3),
            max_poll_interval_ms=int(self._release_timeout_s * 1000),
            topic_metadata_refresh_interval_ms=10_000,
        )
        self._consumer.subscribe([self._name], on_assign=self._assign, on_revoke=self._revoke, on_lost=self._lose)
        self._thread = threading.Thread(target=self._serve, name=f"headstream-kafka-member {group}", daemon=True)
        self._thread.start()
        register_for_forks(self)

    def after_fork(self) -> None:
        """Do nothing: the member belongs to the parent process."""
        self._changed = threading.Condition()
        self._is_closing = True
        keep_forever(self._consumer)

    @property
    def generation(self) -> int:
        """Generation number; increases with each change of the member's partitions."""
        return self._generation

    # -- the member's thread --------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while not self._is_closing:
            record = self._consumer.poll(0)
            error = None if record is None else record.error()
            if error is not None and error.code() not in TRANSIENT:
                found = refused(error, str(self.topic), f"the group {self.group!r} rejected the member")
                if not isinstance(found, RebalancedError):  # else timed out: librdkafka rejoins, and the partitions are lost
                    with self._changed:
                        self._error = found
                        self._change()
            self._wait_and_commit(lambda: False, _POLL_S)
        with suppress(KafkaException, RuntimeError):
            self._consumer.close()
        while self._commits:
            self._commits.popleft().run(self._consumer)

    def _wait_and_commit(self, is_over: Callable[[], bool], timeout_s: float) -> None:
        """Execute requested commits until a condition holds, the member leaves, or a timeout expires."""
        until_s = time.monotonic() + timeout_s
        while True:
            with self._changed:
                if self._is_closing or is_over() or time.monotonic() >= until_s:
                    return
                if not self._commits:
                    self._changed.wait(min(_SLICE_S, max(until_s - time.monotonic(), 0)))
                wanted = self._commits.popleft() if self._commits else None
            if wanted is not None:
                wanted.run(self._consumer)

    def _change(self) -> None:
        """Increment the generation and notify waiting threads; called with the lock held."""
        self._generation += 1
        self._changed.notify_all()

    def _assign(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        if self._is_cooperative:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
        consumer.pause(partitions)
        with self._changed:
            self._has_joined = True
            self._change()
            self._owned.update((each.partition, self._generation) for each in partitions)

    def _revoke(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        """Unassign partitions after the consumer has released them."""
        numbers = {each.partition for each in partitions}
        with self._changed:
            self._revoking |= numbers & self._owned.keys()
            self._change()
        self._wait_and_commit(lambda: self._is_resting or not self._revoking, self._release_timeout_s)
        self._lose(consumer, partitions)

    def _lose(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        if self._is_cooperative:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        with self._changed:
            for each in partitions:
                self._owned.pop(each.partition, None)
                self._revoking.discard(each.partition)
            self._change()

    # -- the consumer's calls ---------------------------------------------------------------------------------------

    def wait_until_joined(self) -> None:
        """Wait for the first assignment, which can be empty in a stable group; HeadstreamError if the member is rejected."""
        until_s, describe_s = time.monotonic() + self._cluster.timeout_s, time.monotonic() + _DESCRIBE_S
        settled_s: float | None = None
        while True:
            self._cluster.check_interrupt()
            with self._changed:
                self._raise_error()
                if self._owned or self._changed.wait_for(lambda: self._owned, _SLICE_S):
                    return
            now_s = time.monotonic()
            if now_s > until_s:
                raise ServerUnreachableError(
                    f"the member could not join the group {self.group!r} in time",
                    where=str(self.topic),
                    advice="Check the state of the group: another member may be delaying the rebalance",
                )
            if self._has_joined and now_s > describe_s:  # the coordinator has just answered
                describe_s = now_s + _DESCRIBE_S
                is_stable, has_enough_partitions = self._describe_group()
                if not is_stable:
                    settled_s = None
                elif settled_s is None:
                    settled_s = now_s
                if settled_s is not None and (not has_enough_partitions or now_s > settled_s + _SETTLE_S):
                    return

    def _raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _describe_group(self) -> tuple[bool, bool]:
        """Return whether the group is stable and contains this member, and whether the topic has a partition for each member."""
        try:
            found = self._cluster.ask(
                self.group,
                lambda admin, timeout_s: admin.describe_consumer_groups([self.group], request_timeout=timeout_s),
                timeout_s=_DESCRIBE_LIMIT_S,
            )[self.group]
        except ServerUnreachableError:
            return True, True  # the member then waits for _SETTLE_S
        is_member = any(each.client_id == self._client_id for each in found.members)
        count = self._cluster.count_partitions(self.topic)
        return found.state.name == "STABLE" and is_member, len(found.members) <= count

    def report(self, released: Iterable[int] = (), *, is_resting: bool = False) -> Assignment:
        """Release revoked partitions; return the member's partitions.

        Args:
            is_resting: Whether no message is in progress; every partition can then be revoked until the next report.
        """
        with self._changed:
            self._raise_error()
            self._is_resting = is_resting
            self._revoking.difference_update(released)
            for number in released:
                self._owned.pop(number, None)
            self._changed.notify_all()
            kept = {number: since for number, since in self._owned.items() if number not in self._revoking}
            revoked = {number: since for number, since in self._owned.items() if number in self._revoking}
            return Assignment(self._generation, kept, revoked)

    def commit(self, offsets: Mapping[int, int], *, generation: int, is_resting: bool) -> None:
        """Commit offsets of the member's partitions.

        During a rebalance, Kafka also refuses commits of partitions that the member keeps; these commits are retried.

        Raises:
            RebalancedError: the member has lost a partition since its last report (`generation`); the other offsets are stored.
            OutcomeUnknownError: no coordinator has confirmed the commit within the timeout.
        """
        until_s = time.monotonic() + self._cluster.timeout_s
        left, lost, was_sent = dict(offsets), list[int](), False
        while True:
            self._cluster.check_interrupt()
            revoked = [number for number in left if self._owned.get(number, generation + 1) > generation]
            lost += revoked
            for number in revoked:
                del left[number]
            error = self._commit([TopicPartition(self._name, *each) for each in left.items()], until_s) if left else None
            if error is None:
                with self._changed:
                    self._is_resting = is_resting
                    self._changed.notify_all()
                if lost:
                    raise self._rebalanced(lost, was_sent=was_sent)
                return
            if isinstance(error, RuntimeError):
                raise ClosedError("the consumer is closed", advice="Create a new consumer with log.consumer()") from error
            if error.code() == _fenced:
                raise self._rebalanced(sorted([*lost, *left]), was_sent=was_sent)
            found = refused(error, f"{self.topic}, group {self.group!r}", "nothing is committed")
            if error.code() not in TRANSIENT and not isinstance(found, RebalancedError):
                raise found
            was_sent = True
            if time.monotonic() > until_s:
                raise OutcomeUnknownError(
                    f"the offset of partition {_listed(left)} may or may not be committed: {error.str()} ({error.name()})",
                    where=f"{self.topic}, group {self.group!r}",
                    advice="Commit again; if the consumer ends first, the messages can be delivered again",
                ) from found
            self._cluster.pause()

    def _commit(self, offsets: list[TopicPartition], until_s: float) -> Any:
        """Commit in the member's thread, until a monotonic time; return Kafka's error or a timeout error, or None."""
        wanted = _Commit(offsets)
        with self._changed:
            self._commits.append(wanted)
            self._changed.notify_all()
        while not wanted.is_done.wait(_SLICE_S):
            self._cluster.check_interrupt()
            if time.monotonic() > until_s:
                return KafkaError(_timed_out)
            if not self._thread.is_alive() and not wanted.is_done.is_set():
                return RuntimeError("the member has left")
        return wanted.error

    def _rebalanced(self, partitions: Iterable[int], *, was_sent: bool) -> RebalancedError:
        """Return the error for a commit in partitions that were lost; `was_sent`: an earlier attempt may have succeeded."""
        if was_sent:
            return RebalancedError(
                f"the offset of partition {_listed(partitions)} may or may not be committed: this member of the group "
                f"{self.group!r} no longer owns the partition",
                where=str(self.topic),
                advice="Uncommitted messages are delivered again, to this member or another member",
            )
        return RebalancedError(
            f"nothing is committed in partition {_listed(partitions)}, which another member of the group {self.group!r} owns now",
            where=str(self.topic),
            advice="Uncommitted messages of the partition are delivered again; process messages within session_timeout_ms",
        )

    def close_soon(self) -> None:
        """Leave the group in the background; only sets a flag, so it is safe to call from a finalizer."""
        self._is_closing = True

    def close(self) -> None:
        """Leave the group."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._thread is not threading.current_thread():
            self._thread.join(self._cluster.timeout_s)


def _listed(partitions: Iterable[int]) -> str:
    return ", ".join(map(str, partitions))
