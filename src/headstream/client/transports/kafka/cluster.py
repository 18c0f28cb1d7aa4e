"""Cluster: requests through confluent-kafka's admin API, retried while a leader or coordinator is down."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import admin as admin_api
from confluent_kafka.admin import AdminClient

from headstream.client.closing import limited
from headstream.client.transports.kafka.address import KafkaAddress
from headstream.client.transports.kafka.refusals import TRANSIENT, error_of, refused
from headstream.core.codec.kafka import KafkaTopicNames
from headstream.core.model.identifiers import TopicName
from headstream.errors import AuthenticationError, ClosedError, InvalidOptionError, ServerUnreachableError
from headstream.forks import keep_forever, register_for_forks

_specs: Final[Any] = admin_api.OffsetSpec  # type: ignore[attr-defined,unused-ignore]
FIRST_OFFSET: Final[Any] = _specs.earliest()
END_OFFSET: Final[Any] = _specs.latest()
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_SLICE_S: Final = 0.1
"""Interval at which waits for a response check for an interrupt, seconds."""
_PAUSE_S: Final = 0.1
"""Delay between two attempts of a request while a leader or coordinator is unavailable, seconds."""
_INTERRUPT_S: Final = 1.0
"""Time for which an interrupt of a thread is valid, seconds; longer than the interval of checks."""
_ATTEMPT_S: Final = 5.0
"""Timeout of one attempt of a request, seconds; the next attempt is sent to the broker that is then responsible."""
_COORDINATOR_MS: Final = 3000
"""Time for which the admin client caches an unused group coordinator, milliseconds; a failover does not update the cache."""
_SPREAD_S: Final = 30.0
"""Maximum time until all brokers have the metadata of a new topic, seconds."""
_LIST_S: Final = 2.0
"""Timeout of one attempt to list topics, seconds."""
_unknown_topic: Final[int] = KafkaError.UNKNOWN_TOPIC_OR_PART  # type: ignore[attr-defined,unused-ignore]
_log: Final = logging.getLogger("headstream.kafka")


class Cluster:
    """A Kafka cluster; thread-safe."""

    def __init__(self, address: KafkaAddress) -> None:
        self.address = address
        self.names = KafkaTopicNames(address.default_stream)
        self._lock = threading.Lock()
        self._admin: Any = None
        self._is_closed = False
        self._interrupted: dict[int, float] = {}
        self._login_error: Any = None
        self._created_s: dict[str, float] = {}
        register_for_forks(self)

    def after_fork(self) -> None:
        """In a forked child: use a new admin client, because the threads of the parent's client do not exist."""
        self._lock = threading.Lock()
        keep_forever(self._admin)
        self._admin = None
        self._interrupted = {}

    def settings(self, **more: Any) -> dict[str, Any]:
        """Return settings for librdkafka; `more` (underscores for dots) override the settings of the address."""
        made = {"bootstrap.servers": self.address.hosts, "logger": _log, "error_cb": self._note}
        return made | dict(self.address.settings) | {name.replace("_", "."): value for name, value in more.items()}

    def make(self, kind: Callable[[dict[str, Any]], _Value], **more: Any) -> _Value:
        """Create a librdkafka client with the address's settings and `more`; InvalidOptionError if a setting is rejected."""
        if self._is_closed:
            raise ClosedError("the log is closed", advice="Connect again")
        try:
            return kind(self.settings(**more))
        except KafkaException as error:
            raise InvalidOptionError(
                f"librdkafka rejected the settings: {error_of(error).str()}", advice="Check the options named kafka.*"
            ) from None

    def _note(self, error: Any) -> None:
        """Store a login error, because librdkafka retries logins without limit and its calls only time out."""
        if isinstance(refused(error, self.address.place), AuthenticationError):
            self._login_error = error

    @property
    def admin(self) -> Any:
        """The admin client, created at its first use."""
        with self._lock:
            if self._admin is None:
                self._admin = self.make(AdminClient, metadata_max_age_ms=_COORDINATOR_MS)
            return self._admin

    def open(self) -> None:
        """Connect; ServerUnreachableError if no broker can be reached, AuthenticationError if the login was refused."""
        until_s = time.monotonic() + self.address.connect_timeout_ms / 1000
        while True:
            self.check_interrupt()
            left_s = until_s - time.monotonic()
            try:
                self.admin.list_topics(timeout=max(min(left_s, 1.0), 0.05))
                return
            except KafkaException as error:
                self.admin.poll(0)
                self.raise_login()
                if left_s <= 0 or error_of(error).code() not in TRANSIENT:
                    raise refused(error, self.address.place, "the Kafka cluster cannot be reached") from None

    @property
    def timeout_s(self) -> float:
        """The current maximum duration of a request, including retries, seconds."""
        return limited(self.address.timeout_ms / 1000)

    def raise_login(self) -> None:
        """Raise AuthenticationError if a login was refused since the last call."""
        error, self._login_error = self._login_error, None
        if error is not None:
            raise refused(error, self.address.place, "the login was refused")

    def interrupt(self, thread: int, is_over: bool = False) -> None:
        """End a thread's current wait with an error; `is_over`: remove an interrupt that the thread's call has not noticed."""
        if is_over:
            self._interrupted.pop(thread, None)
        else:
            self._interrupted[thread] = time.monotonic()

    def check_interrupt(self) -> None:
        """Raise ServerUnreachableError if the calling thread was interrupted, ClosedError if the log is closed."""
        if self._is_closed:
            raise ClosedError("the log is closed", advice="Connect again")
        asked_s = self._interrupted.pop(threading.get_ident(), None) if self._interrupted else None
        if asked_s is not None and time.monotonic() - asked_s < _INTERRUPT_S:  # an older interrupt was for a call that has ended
            raise ServerUnreachableError("the call was interrupted", where=self.address.place)

    def result(self, future: Future[_Value]) -> _Value:
        """Return a future's result; KafkaException if the request failed."""
        self.check_interrupt()
        while not wait((future,), _SLICE_S).done:
            self.check_interrupt()
        return future.result()

    def ask(
        self, where: str, start: Callable[[Any, float], Mapping[_Key, Future[_Value]]], *, timeout_s: float | None = None
    ) -> dict[_Key, _Value]:
        """Send requests, retry after transient errors, and return the results; HeadstreamError if a request fails.

        Args:
            start: Called with the admin client and the request timeout, seconds; returns the futures.
            timeout_s: Total time of all attempts, seconds; None: the timeout of the address.
        """
        until_s = time.monotonic() + (self.timeout_s if timeout_s is None else limited(timeout_s))
        while True:
            attempt_s = min(max(until_s - time.monotonic(), 0.1), _ATTEMPT_S)
            try:
                return {key: self.result(future) for key, future in start(self.admin, attempt_s).items()}
            except KafkaException as error:
                self.admin.poll(0)
                self.raise_login()
                code = error_of(error).code()
                does_pass = code in TRANSIENT or (code == _unknown_topic and self._is_new(where))
                if not does_pass or time.monotonic() + _PAUSE_S > until_s:
                    raise refused(error, where) from None
            self.pause()
            with suppress(KafkaException):  # librdkafka may wait for a controller or leader that is down: find the current one
                self.admin.list_topics(timeout=_LIST_S)

    def note_created(self, topic: TopicName) -> None:
        """Retry for a limited time if a new topic is unknown to a broker, because metadata reaches brokers at different times."""
        self._created_s[str(topic)] = time.monotonic()

    def note_deleted(self, topic: TopicName) -> None:
        """Stop retrying requests that fail because the topic is unknown."""
        self._created_s.pop(str(topic), None)

    def _is_new(self, where: str) -> bool:
        created_s = self._created_s.get(where)
        return created_s is not None and time.monotonic() - created_s < _SPREAD_S

    def list_topics(self) -> list[str]:
        """Return the names of all topics in Kafka."""
        until_s = time.monotonic() + self.timeout_s
        while True:
            self.check_interrupt()
            try:
                return list(self.admin.list_topics(timeout=_LIST_S).topics)
            except KafkaException as error:
                self.admin.poll(0)
                self.raise_login()
                if error_of(error).code() not in TRANSIENT or time.monotonic() > until_s:
                    raise refused(error, self.address.place) from None

    def pause(self) -> None:
        """Wait before the next attempt."""
        time.sleep(_PAUSE_S)
        self.check_interrupt()

    def describe(self, topics: Iterable[str]) -> dict[str, Any]:
        """Return topic descriptions by Kafka name; TopicNotFoundError if a topic does not exist."""
        wanted = TopicCollection(list(topics))
        where = ", ".join(str(self.names.topic_name(name)) for name in wanted.topic_names)
        return self.ask(where, lambda admin, timeout_s: admin.describe_topics(wanted, request_timeout=timeout_s))

    def count_partitions(self, topic: TopicName) -> int:
        """Return the number of a topic's partitions; TopicNotFoundError if it does not exist."""
        name = self.names.kafka_name(topic)
        return len(self.describe([name])[name].partitions)

    def ends(self, partitions: Iterable[tuple[str, int]]) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], int]]:
        """Return the first offsets and the end offsets of partitions, by Kafka topic and number.

        The end offset is one past the last committed message; messages of open transactions are not included.
        """
        wanted = list(partitions)
        return self.offsets(wanted, FIRST_OFFSET), self.offsets(wanted, END_OFFSET)

    def offsets(self, partitions: Iterable[tuple[str, int]], spec: Any) -> dict[tuple[str, int], int]:
        """Return the offsets that an OffsetSpec selects, by Kafka topic and number; -1 for a time after the last message."""
        asked = {TopicPartition(*each): spec for each in partitions}
        if not asked:
            return {}
        committed = IsolationLevel.READ_COMMITTED
        found = self.ask(
            str(self.names.topic_name(next(iter(asked)).topic)),
            lambda admin, timeout_s: admin.list_offsets(asked, isolation_level=committed, request_timeout=timeout_s),
        )
        return {(each.topic, each.partition): answer.offset for each, answer in found.items()}

    def close(self) -> None:
        """Close the admin client."""
        self._is_closed = True
        self._admin = None


def offset_at(time_ms: int) -> Any:
    """Return the offset spec of the first message at or after a time, milliseconds since 1970 UTC."""
    return _specs.for_timestamp(time_ms)
