"""Mirror: one run that copies topics from one log to another.

    poll the source -> route -> skip copied messages and messages that originate in the destination -> send -> … -> checkpoint

    checkpoint    1. flush: all messages are stored and have their states
                  2. commit offsets in the source: the next run begins at these offsets
                  3. commit the end offsets of the destination: the next run reads back the messages after them

A message is written together with its position in the source (hops.py). After a kill, the next run therefore reads the
destination's messages after the last checkpoint, and skips source messages that exist there. After a kill between steps 2
and 3, the next run only reads back more messages. Step 3 is delayed until the committed offsets of the source have passed all
messages that were read back.
Each message is thus copied once to any kind of destination, without producer ids. Exception: if a server stores the last request
of a killed mirror only after the next run has read back, the messages of this request are copied twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from headstream.core.model.message import MessageState, ReceivedMessage
from headstream.core.model.topology import Topic
from headstream.errors import InvalidOptionError, NotFoundError, OffsetOutOfRangeError, UnsupportedError
from headstream.mirror.hops import Hop, check_log_name, logs_passed
from headstream.mirror.plan import MirrorPlan, create_like, match_topics, plan_mirror
from headstream.mirror.target import TargetTopic

if TYPE_CHECKING:
    from headstream.client.client import Client
    from headstream.client.consumer.consumer import Consumer

_POLL_COUNT: Final = 1000
_IDLE_S: Final = 0.1
"""Wait if no topic has new messages, seconds."""
_CHECK_EVERY_S: Final = 5.0
"""Interval at which patterns are matched against the source's topics and lag is measured, seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOptions:
    """The options of a mirror.

    Args:
        topics: Names `stream/topic` or patterns; by default all topics. Matching topics that are created later are also copied.
        route: Returns the destination topic for a message, or None to skip the message; by default the source's topic.
        once: Whether to stop after copying the messages that existed at the start.
        bytes_per_s: Maximum rate of payload and key bytes, bytes per second; None sets no limit.
        checkpoint_s: Interval between checkpoints, seconds. After a kill, messages sent since the last checkpoint are read back.
        states: `keep` copies messages with their states. `available` copies available messages only, for example to Kafka.
        source_name: The source's name in the header hs.mirror; by default the log's identity.
        target_name: The destination's name in the header hs.mirror; by default the log's identity.
        on_progress: Called after each checkpoint, and repeatedly while no message arrives.
    """

    topics: tuple[str, ...] | list[str] = ("*",)
    route: Callable[[ReceivedMessage], str | None] | None = None
    once: bool = False
    bytes_per_s: float | None = None
    checkpoint_s: float = 1.0
    states: Literal["keep", "available"] = "keep"
    source_name: str | None = None
    target_name: str | None = None
    on_progress: Callable[[MirrorStats], None] = lambda _: None

    def __post_init__(self) -> None:
        if self.bytes_per_s is not None and not self.bytes_per_s > 0:
            raise InvalidOptionError(f"bytes_per_s must be above 0 or None, not {self.bytes_per_s}")
        if self.states not in ("keep", "available"):
            raise InvalidOptionError(f"states must be keep or available, not {self.states!r}")
        if not self.checkpoint_s >= 0:
            raise InvalidOptionError(f"checkpoint_s must be at least 0, not {self.checkpoint_s}")


@dataclass(slots=True)
class MirrorStats:
    """The statistics of a run.

    Args:
        copied: Messages sent to the destination.
        found: Messages that an earlier run had already copied.
        looped: Messages skipped because they originate in the destination.
        left_out: Messages skipped because the route returned None or because they are marked for deletion.
        missed: Offsets removed from the source before they were read; counted only if `states` is `keep`.
        bytes: Payload and key bytes sent.
        lag: Topic -> number of messages in the source that have not been read yet.
        behind_s: Age of the last read message at the time of reading, seconds; 0 if all messages have been read.
    """

    copied: int = 0
    found: int = 0
    looped: int = 0
    left_out: int = 0
    missed: int = 0
    bytes: int = 0
    lag: dict[str, int] = field(default_factory=dict)
    behind_s: float = 0.0


class _SourceTopic:
    """One topic of the source, and the progress of reading it."""

    def __init__(self, source: Client, topic: Topic, committer: str, *, keeps_states: bool) -> None:
        self.name = f"{topic.stream}/{topic.name}"
        self.topic = topic
        self.numbers = [partition.number for partition in topic.partitions]
        self.generations = {partition.number: partition.generation for partition in topic.partitions}
        self.ends = {partition.number: partition.end_offset for partition in topic.partitions}
        committed = source.offsets(self.name, name=committer)
        self.is_unknown = any(
            partition.end_offset > partition.first_offset and partition.number not in committed for partition in topic.partitions
        )
        self.positions = {
            partition.number: committed.get(partition.number, partition.first_offset) for partition in topic.partitions
        }
        self._with_states: frozenset[tuple[int, int]] = frozenset()
        if keeps_states:
            with suppress(UnsupportedError):  # a source without states
                self._with_states = frozenset(
                    (number, change.offset) for number in self.numbers for change in source.states(self.name, number)
                )
        states = None if keeps_states else ("available",)
        self.consumer: Consumer = source.consumer(self.name, name=committer, states=states, timeout_ms=0)

    def has_state(self, hop: Hop) -> bool:
        """Return whether a message was in a state other than available when the run began."""
        return hop.topic == self.name and (hop.partition, hop.offset) in self._with_states

    @property
    def is_at_end(self) -> bool:
        """Whether all messages that existed when the run began have been read."""
        positions = self.consumer.positions
        return all(positions.get(number, end) >= end for number, end in self.ends.items())


class Mirror:
    """One run of a mirror.

    Raises:
        InvalidOptionError: a log has neither an identity nor a name, or both are the same log and there is no route.
    """

    def __init__(self, source: Client, target: Client, options: MirrorOptions | None = None) -> None:
        options = MirrorOptions() if options is None else options
        for log in (source, target):
            if log.has_interceptors:
                raise InvalidOptionError(
                    "logs with interceptors cannot be mirrored", advice="Connect both logs without interceptors"
                )
        self._source = source
        self._target = target
        self._options = options
        self._source_name = _name_of(source, options.source_name, "source")
        self._target_name = options.target_name or target.identity or ""
        if self._source_name == self._target_name and options.route is None:
            raise InvalidOptionError("source and destination must be different logs", advice="Pass another log, or a route")
        self._topics: dict[str, _SourceTopic] = {}
        self._targets: dict[str, TargetTopic] = {}
        self._is_dirty = False
        self._stop = threading.Event()
        self._checked_s = 0.0
        self._saved_s = 0.0
        self._paid_s = 0.0
        self.stats = MirrorStats()

    def plan(self) -> MirrorPlan:
        """Return the plan of a run without creating topics."""
        return plan_mirror(self._source, self._target, self._options.topics)

    def stop(self) -> None:
        """Request that run() end after a checkpoint. Can be called from another thread or a signal handler."""
        self._stop.set()

    def run(self) -> MirrorStats:
        """Copy messages until stop(), or, with `once`, until the existing messages are copied. Can be repeated after an error."""
        self._saved_s = self._paid_s = time.monotonic()
        try:
            self._find_topics()
            while not self._stop.is_set():
                count = sum(self._copy(topic) for topic in list(self._topics.values()) if not self._stop.is_set())
                now_s = time.monotonic()
                if now_s >= self._saved_s + self._options.checkpoint_s or not count:
                    self._save()
                if not count:
                    if self._options.once and all(topic.is_at_end for topic in self._topics.values()):
                        break
                    self._stop.wait(_IDLE_S)
                if now_s >= self._checked_s + _CHECK_EVERY_S:
                    self._find_topics()
                    self._options.on_progress(self.stats)
            self._save()
            self._measure_lag()
            self._options.on_progress(self.stats)
        finally:
            self._close()
        return self.stats

    # -- topics -----------------------------------------------------------------------------------------------

    def _find_topics(self) -> None:
        """Begin to copy new topics, and measure the lag."""
        self._checked_s = time.monotonic()
        if self._topics and self._options.once:
            self._measure_lag()
            return
        for topic in match_topics(self._source, self._options.topics):
            name = f"{topic.stream}/{topic.name}"
            known = self._topics.get(name)
            if known is not None and known.numbers == [partition.number for partition in topic.partitions]:
                continue
            if known is not None:
                self._save()
                known.consumer.close(commit=False)
            committer = self._committer("to", self._name_target(topic))
            with self._unless_deleted(name):
                self._topics[name] = _SourceTopic(self._source, topic, committer, keeps_states=self._options.states == "keep")
        self._measure_lag()

    @contextmanager
    def _unless_deleted(self, name: str) -> Iterator[None]:
        """Stop copying a topic if the body fails because the topic was deleted; raise the error if the topic still exists."""
        try:
            yield
        except NotFoundError:
            if any(f"{topic.stream}/{topic.name}" == name for topic in match_topics(self._source, self._options.topics)):
                raise
            removed = self._topics.pop(name, None)
            if removed is not None:
                with suppress(NotFoundError):
                    removed.consumer.close(commit=False)

    def _name_target(self, topic: Topic) -> str:
        """Return the destination's name. If a new log has no identity yet, creating the first topic assigns its identity."""
        if not self._target_name:
            if self._options.route is None:
                create_like(self._target, topic, f"{topic.stream}/{topic.name}")
            self._target_name = _name_of(self._target, None, "target")
        return self._target_name

    def _committer(self, direction: str, log: str) -> str:
        """Return the name under which offsets are committed: mirror-to-TARGET in the source, mirror-from-SOURCE in the target."""
        return f"mirror-{direction}-{log}"

    def _measure_lag(self) -> None:
        self.stats.lag = {}
        for name, topic in list(self._topics.items()):
            positions, ends = topic.consumer.positions, dict[int, int]()
            with self._unless_deleted(name):
                ends = {partition.number: partition.end_offset for partition in self._source.topic(name).partitions}
            self.stats.lag[name] = sum(max(0, end - positions.get(number, end)) for number, end in ends.items())
        if not any(self.stats.lag.values()):
            self.stats.behind_s = 0.0

    def _target_topic(self, name: str, topic: _SourceTopic) -> TargetTopic:
        target = self._targets.get(name)
        if target is None:
            is_unknown = any(each.is_unknown for each in self._topics.values())
            committer = self._committer("from", self._source_name)
            target = TargetTopic(
                self._target,
                name,
                topic.topic,
                self._source_name,
                committer,
                from_first=is_unknown,
                has_state=lambda hop: any(each.has_state(hop) for each in self._topics.values()),
            )
            self._targets[name] = target
        return target

    # -- messages ---------------------------------------------------------------------------------------------

    def _copy(self, topic: _SourceTopic) -> int:
        messages: list[ReceivedMessage] = []
        with self._unless_deleted(topic.name):
            messages = topic.consumer.poll(_POLL_COUNT)
        for message in messages:
            expected = topic.positions[message.partition]
            if message.offset < expected:
                raise OffsetOutOfRangeError(
                    f"offset {message.offset} arrived, but offset {expected} or higher was expected", where=topic.name
                )
            if self._options.states == "keep":
                self.stats.missed += message.offset - expected
            topic.positions[message.partition] = message.offset + 1
            self._copy_message(topic, message)
        if messages:
            self._is_dirty = True
            self.stats.behind_s = max(0.0, time.time() - messages[-1].timestamp / 1e6)
        return len(messages)

    def _copy_message(self, topic: _SourceTopic, message: ReceivedMessage) -> None:
        options, stats = self._options, self.stats
        if self._target_name in logs_passed(message.headers):
            stats.looped += 1
            return
        name = topic.name if options.route is None else options.route(message)
        if name is None:
            stats.left_out += 1
            return
        generation = topic.generations[message.partition]
        hop = Hop(self._source_name, topic.name, message.partition, generation, message.offset)
        target = self._target_topic(name, topic)
        if target.has(hop):
            target.restore_state(message, hop)
            stats.found += 1
            return
        if message.state == MessageState.MARKED_FOR_DELETION:
            stats.left_out += 1
            return
        target.send(message, hop, topic.numbers)
        stats.copied += 1
        size_bytes = len(message.payload or b"") + len(message.key or b"")
        stats.bytes += size_bytes
        if options.bytes_per_s is not None:
            self._pay(size_bytes / options.bytes_per_s)

    def _pay(self, cost_s: float) -> None:
        """Wait until the rate limit allows a message. Unused capacity does not accumulate."""
        now_s = time.monotonic()
        self._paid_s = max(self._paid_s, now_s) + cost_s
        if self._paid_s > now_s + _IDLE_S:
            self._stop.wait(self._paid_s - now_s)

    def _save(self) -> None:
        """Make a checkpoint if messages were read since the last checkpoint."""
        self._saved_s = time.monotonic()
        if not self._is_dirty:
            return
        for target in self._targets.values():
            target.flush()
        for topic in list(self._topics.values()):
            with self._unless_deleted(topic.name):
                topic.consumer.commit()
        for target in self._targets.values():
            target.commit(self._is_passed)
        self._is_dirty = False
        self._options.on_progress(self.stats)

    def _is_passed(self, place: tuple[str, int, int], offset: int) -> bool:
        """Return whether a source partition is committed up to an offset; False if this run does not copy the partition."""
        name, partition, generation = place
        topic = self._topics.get(name)
        if topic is None or partition not in topic.positions:
            return False
        return generation != topic.generations[partition] or topic.positions[partition] >= offset

    def _close(self) -> None:
        """Close all consumers and producers without a commit; the next run reads uncommitted messages again."""
        for topic in self._topics.values():
            topic.consumer.close(commit=False)
        for target in self._targets.values():
            target.close()


def _name_of(log: Client, given: str | None, which: str) -> str:
    name = log.identity if given is None else given
    if name is None:
        raise InvalidOptionError(f"the {which} log has no identity yet", advice=f"Write to the log first, or set {which}_name")
    return check_log_name(name)
