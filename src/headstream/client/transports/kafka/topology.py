"""Streams, topics and partitions of a Kafka cluster.

A stream is the part of topic names before the first dot, and exists while it has a topic. Partitions are numbered from 0.

    retention_us          retention.ms, rounded up
    retention_bytes       retention.bytes (a limit per partition) times the number of partitions
    compaction_delay_us   delete.retention.ms, with cleanup.policy=compact
    fsync=always          flush.messages=1
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from confluent_kafka import TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined,unused-ignore]
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
)
from confluent_kafka.admin import NewTopic as KafkaNewTopic  # type: ignore[attr-defined,unused-ignore]

from headstream.client.transports.kafka.cluster import Cluster
from headstream.client.transports.kafka.refusals import unsupported
from headstream.core.model.identifiers import TopicName, check_name
from headstream.core.model.topology import (
    Fsync,
    Limits,
    NewTopic,
    Partition,
    Stream,
    Topic,
    TopicOptions,
    check_added_partitions,
    check_partition_count,
)
from headstream.errors import AlreadyExistsError, HeadstreamError, ServerUnreachableError, StreamNotFoundError, TopicNotFoundError

_DEFAULT_REPLICATION: Final = -1
"""Replication factor that selects the cluster's default.replication.factor."""
_MS: Final = 1000
_LISTINGS: Final = 10
"""Maximum attempts to list topics while topics are deleted."""


class KafkaTopics:
    """Topic commands."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def create(self, new: NewTopic, *, if_not_exists: bool = False) -> Topic:
        """Create a topic, wait until its partitions have leaders, and return the topic.

        Args:
            new: The limits are ignored, because every Kafka topic accepts the messages that `wide` accepts. `fsync="always"` sets
                flush.messages=1; otherwise, the cluster's settings apply.

        Raises:
            UnsupportedError: deduplication is requested.
        """
        name, partitions = new.name, new.partitions
        check_name(name.stream, "stream")
        check_partition_count(name, partitions)
        spelled = self._cluster.names.kafka_name(name)
        config = _config_of(vars_of(new.options), partitions)
        if new.fsync is Fsync.ALWAYS:
            config["flush.messages"] = "1"
        wanted = KafkaNewTopic(
            spelled, partitions, _DEFAULT_REPLICATION, config={key: text for key, text in config.items() if text is not None}
        )
        try:
            self._cluster.ask(str(name), lambda admin, timeout_s: admin.create_topics([wanted], request_timeout=timeout_s))
        except AlreadyExistsError as error:
            if if_not_exists:
                return self.get(name)
            raise AlreadyExistsError(f"the topic {str(name)!r} already exists", advice="Choose another name") from error
        self._cluster.note_created(name)
        self._wait(spelled, partitions)
        return self.get(name)

    def _wait(self, spelled: str, partitions: int) -> None:
        """Wait until a topic has `partitions` partitions with leaders; 0 waits until the topic no longer exists."""
        for _ in range(max(self._cluster.address.timeout_ms // 100, 1)):
            try:
                found = self._cluster.describe([spelled])[spelled].partitions
                if (
                    partitions
                    and len(found) >= partitions
                    and all(each.leader is not None and each.leader.id >= 0 for each in found)
                ):
                    return
            except TopicNotFoundError:
                if not partitions:
                    return
            self._cluster.pause()
        raise ServerUnreachableError("the brokers did not change the topic in time", where=spelled, advice="Retry later")

    def get(self, name: TopicName) -> Topic:
        """Return a topic with its current partitions; TopicNotFoundError if it does not exist."""
        spelled = self._cluster.names.find_kafka_name(name)
        if spelled is None:
            raise TopicNotFoundError(f"there is no topic {str(name)!r}", advice="List the topics with log.topics()")
        return self._describe([spelled])[0]

    def find(self, stream: str | int, topic: str | int) -> Topic | None:
        """Return a topic by its names; None if it does not exist. Kafka topics have no ids."""
        if isinstance(stream, int) or isinstance(topic, int):
            return None
        try:
            return self.get(TopicName(stream, topic))
        except TopicNotFoundError:
            return None

    def list(self, stream: str | None = None) -> builtins.list[Topic]:
        """Return all topics of one stream, or of all streams, by name, except Kafka's internal topics."""
        for _ in range(_LISTINGS - 1):
            with suppress(TopicNotFoundError):  # a topic was deleted between its listing and its description
                return self._describe(self._names_in(stream))
            self._cluster.pause()
        return self._describe(self._names_in(stream))

    def _names_in(self, stream: str | None) -> builtins.list[str]:
        names = [spelled for name, spelled in self.names() if stream is None or name.stream == stream]
        if stream is not None and not names:
            raise _no_stream(stream)
        return names

    def names(self) -> builtins.list[tuple[TopicName, str]]:
        """Return the Headstream and Kafka names of all topics that have both, sorted by Kafka name."""
        names = self._cluster.names
        listed = self._cluster.list_topics()
        pairs = [(names.topic_name(spelled), spelled) for spelled in sorted(listed) if not spelled.startswith("__")]
        return [(name, spelled) for name, spelled in pairs if names.find_kafka_name(name) == spelled]

    def _describe(self, spelled: Iterable[str]) -> builtins.list[Topic]:
        found = self._cluster.describe(spelled) if spelled else {}
        found = {name: each for name, each in found.items() if not each.is_internal}
        firsts, ends = self._cluster.ends((name, each.id) for name, topic in found.items() for each in topic.partitions)
        settings = self._settings(found)
        return [self._topic(name, each, settings[name], firsts, ends) for name, each in found.items()]

    def _settings(self, spelled: Iterable[str]) -> dict[str, Mapping[str, Any]]:
        wanted = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in spelled]
        if not wanted:
            return {}
        where = ", ".join(str(self._cluster.names.topic_name(each.name)) for each in wanted)
        found = self._cluster.ask(where, lambda admin, timeout_s: admin.describe_configs(wanted, request_timeout=timeout_s))
        return {resource.name: {name: entry.value for name, entry in entries.items()} for resource, entries in found.items()}

    def _topic(
        self,
        spelled: str,
        found: Any,
        settings: Mapping[str, Any],
        firsts: Mapping[tuple[str, int], int],
        ends: Mapping[tuple[str, int], int],
    ) -> Topic:
        name = self._cluster.names.topic_name(spelled)
        numbers = sorted(each.id for each in found.partitions)
        is_compacted = "compact" in (settings.get("cleanup.policy") or "")
        retention_ms, size = _number(settings, "retention.ms"), _number(settings, "retention.bytes")
        return Topic(
            stream=name.stream,
            name=name.topic,
            id=0,
            created_us=0,
            limits=Limits.WIDE,
            partitions=tuple(Partition(n, firsts[spelled, n], ends[spelled, n], 0) for n in numbers),
            fsync=Fsync.ALWAYS if _number(settings, "flush.messages") == 1 else Fsync.INTERVAL,
            retention_us=None if retention_ms is None else retention_ms * _MS,
            retention_bytes=None if size is None else size * len(numbers),
            compaction_delay_us=(_number(settings, "delete.retention.ms") or 0) * _MS if is_compacted else None,
            identity=str(found.topic_id or ""),
        )

    def delete(self, name: TopicName) -> None:
        """Delete a topic and wait until the brokers have removed it."""
        spelled = self._known(name)
        self._cluster.note_deleted(name)
        self._cluster.ask(str(name), lambda admin, timeout_s: admin.delete_topics([spelled], request_timeout=timeout_s))
        self._wait(spelled, 0)

    def _known(self, name: TopicName) -> str:
        spelled = self._cluster.names.kafka_name(name)
        self._cluster.describe([spelled])
        return spelled

    def update(self, name: TopicName, **changes: Any) -> Topic:
        """Change options of a topic by name; omitted options stay unchanged."""
        spelled = self._known(name)
        TopicOptions(**changes)
        config = _config_of(changes, self._cluster.count_partitions(name))
        entries = [
            ConfigEntry(key, text, incremental_operation=AlterConfigOpType.DELETE if text is None else AlterConfigOpType.SET)
            for key, text in config.items()
        ]
        resource = ConfigResource(ConfigResource.Type.TOPIC, spelled, incremental_configs=entries)
        if entries:
            self._cluster.ask(
                str(name), lambda admin, timeout_s: admin.incremental_alter_configs([resource], request_timeout=timeout_s)
            )
        return self.get(name)

    def rename(self, name: TopicName, to: str) -> None:
        """Raise UnsupportedError: Kafka cannot rename a topic."""
        raise unsupported(
            f"Kafka cannot rename a topic: {name} keeps the name {name}", f"Create {name.stream}/{to}, and copy the messages"
        )

    def purge(self, name: TopicName) -> None:
        """Delete the messages of a topic; offsets are not reset."""
        spelled = self._known(name)
        _, ends = self._cluster.ends((spelled, number) for number in range(self._cluster.count_partitions(name)))
        wanted = [TopicPartition(topic, number, end) for (topic, number), end in ends.items() if end]
        if wanted:
            self._cluster.ask(str(name), lambda admin, timeout_s: admin.delete_records(wanted, request_timeout=timeout_s))


class KafkaStreams:
    """Stream commands."""

    def __init__(self, cluster: Cluster, topics: KafkaTopics) -> None:
        self._cluster = cluster
        self._topics = topics

    def create(self, name: str) -> Stream:
        """Raise UnsupportedError: a stream in Kafka exists while it has a topic."""
        check_name(name, "stream")
        if any(stream.name == name for stream in self.list()):
            raise AlreadyExistsError(f"the stream {name!r} already exists", advice="Choose another name")
        raise unsupported("Kafka has no streams without topics", f"Create a topic: {name}/... creates the stream")

    def get(self, name: str) -> Stream:
        """Return a stream; StreamNotFoundError if it has no topic."""
        found = self.find(name)
        if found is None:
            raise _no_stream(name)
        return found

    def find(self, stream: str | int) -> Stream | None:
        """Return a stream by name; None if it does not exist."""
        return next((each for each in self.list() if each.name == stream), None)

    def list(self) -> builtins.list[Stream]:
        """Return all streams, by name."""
        topics: dict[str, builtins.list[str]] = {}
        for name, _ in self._topics.names():
            topics.setdefault(name.stream, []).append(name.topic)
        return [Stream(name, 0, 0, tuple(sorted(found))) for name, found in sorted(topics.items())]

    def rename(self, name: str, to: str) -> None:
        """Raise UnsupportedError: Kafka cannot rename topics."""
        raise unsupported("Kafka cannot rename a stream: its topics keep their names", "Create topics in the new stream")

    def delete(self, name: str) -> None:
        """Delete all topics of a stream."""
        for topic in self.get(name).topics:
            self._topics.delete(TopicName(name, topic))


class KafkaPartitions:
    """Partition commands."""

    def __init__(self, cluster: Cluster, topics: KafkaTopics) -> None:
        self._cluster = cluster
        self._topics = topics

    def create(self, topic: TopicName, count: int) -> Topic:
        have = self._cluster.count_partitions(topic)
        check_added_partitions(topic, have, count)
        spelled = self._cluster.names.kafka_name(topic)
        wanted = [NewPartitions(spelled, have + count)]
        self._cluster.ask(str(topic), lambda admin, timeout_s: admin.create_partitions(wanted, request_timeout=timeout_s))
        self._topics._wait(spelled, have + count)
        return self._topics.get(topic)

    def delete(self, topic: TopicName, count: int) -> Topic:
        """Raise UnsupportedError: Kafka cannot delete partitions."""
        raise unsupported("Kafka cannot delete partitions", f"Create a topic with fewer partitions than {topic} has")


def vars_of(options: TopicOptions) -> dict[str, Any]:
    """Return the options that are set, by name."""
    named = {
        name: getattr(options, name)
        for name in (
            "retention_us",
            "retention_bytes",
            "compaction_delay_us",
            "deduplication_count",
            "summary_headers",
            "kafka_headers",
        )
    }
    return {name: value for name, value in named.items() if value is not None} | ({"legal_hold": 1} if options.legal_hold else {})


def _config_of(options: Mapping[str, Any], partitions: int) -> dict[str, str | None]:
    """Return Kafka's settings for options, with None for the cluster's default; UnsupportedError if Kafka has no such option."""
    if options.get("deduplication_count") is not None:
        raise unsupported(
            "Kafka does not deduplicate by message id",
            "Omit deduplication_count: each producer's messages are stored once in any case",
        )
    if options.get("summary_headers") is not None:
        raise unsupported("Kafka does not summarize headers", "Omit summary_headers: this client filters received messages")
    if options.get("kafka_headers") is not None:
        raise unsupported("Kafka does not store a header convention per topic", "Pass kafka_headers to connect()")
    for name in ("deletion_grace_us", "legal_hold"):
        if options.get(name):
            raise unsupported(f"Kafka does not support {name}", f"Omit {name}")
    config: dict[str, str | None] = {}
    if "retention_us" in options:
        config["retention.ms"] = _ceiling(options["retention_us"], _MS)
    if "retention_bytes" in options:
        config["retention.bytes"] = _ceiling(options["retention_bytes"], partitions)
    if "compaction_delay_us" in options:
        delay = options["compaction_delay_us"]
        config["cleanup.policy"] = "delete" if delay is None else "compact"
        config["delete.retention.ms"] = None if delay is None else _ceiling(delay, _MS)
    return config


def _ceiling(number: int | None, divisor: int) -> str:
    return "-1" if number is None else str(-(-number // divisor))


def _number(settings: Mapping[str, Any], name: str) -> int | None:
    """Return a setting as a number; None if the setting is missing or -1."""
    try:
        value = int(settings.get(name) or -1)
    except ValueError:
        return None
    return None if value < 0 else value


def _no_stream(name: str) -> HeadstreamError:
    return StreamNotFoundError(
        f"there is no stream {name!r}", advice="List the streams with log.streams(): a stream exists only while it has a topic"
    )
