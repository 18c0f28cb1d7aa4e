"""KafkaRecord: a record that a Kafka client sends or receives, and the conversion of record objects of Kafka clients.

This module does not import a Kafka client. Any object with `key`, `value`, `headers`, `timestamp`, `topic`, `partition` and
`offset` is a record; these can be attributes (aiokafka, kafka-python) or methods (confluent-kafka).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from headstream.errors import InvalidInputError

KafkaHeader: TypeAlias = tuple[str, bytes | None]
"""A Kafka header: a key and bytes, or null; headers are ordered, keys can repeat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaRecord:
    """A Kafka record.

    Args:
        timestamp_ms: Milliseconds since 1970 UTC; None if the client or the broker sets the time.
        topic: The topic's name in Kafka; None if it is unknown.
        partition: Partition number from 0; None if the client chooses the partition.
    """

    value: bytes | None
    key: bytes | None = None
    headers: tuple[KafkaHeader, ...] = ()
    timestamp_ms: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None

    def arguments(self, client: Literal["confluent", "aiokafka", "kafka-python"]) -> dict[str, Any]:
        """Return the named arguments of a client's send: `producer.produce(**...)` or `producer.send(**...)`.

        Args:
            client: `confluent` for confluent-kafka's produce(), or `aiokafka` or `kafka-python` for their send().

        Raises:
            InvalidInputError: the client cannot send the record, because kafka-python does not support null headers.
        """
        time_name = "timestamp" if client == "confluent" else "timestamp_ms"
        if client == "kafka-python" and any(value is None for _, value in self.headers):
            raise InvalidInputError("kafka-python cannot send a header that is null", advice="Use confluent-kafka or aiokafka")
        chosen = {"topic": self.topic, "partition": self.partition, time_name: self.timestamp_ms}
        named = {name: value for name, value in chosen.items() if value is not None}
        return {**named, "value": self.value, "key": self.key, "headers": list(self.headers)}


def read_record(source: Any) -> KafkaRecord:
    """Convert a Kafka client's object to a record.

    Args:
        source: A KafkaRecord, a Message of confluent-kafka, a ConsumerRecord of aiokafka or kafka-python, or an object with the
            same attributes or methods.

    Raises:
        InvalidInputError: the object is not a record, or reports an error.
    """
    if isinstance(source, KafkaRecord):
        return source
    error = _member(source, "error")
    if error is not None:
        raise InvalidInputError(f"the client reports an error instead of a record: {error}")
    try:
        time = _member(source, "timestamp")
        if isinstance(time, tuple):  # confluent-kafka: the type of the time, and the time
            time = time[1] if time[0] else None
        return KafkaRecord(
            value=_bytes(_member(source, "value")),
            key=_bytes(_member(source, "key")),
            headers=tuple((str(name), _bytes(value)) for name, value in _member(source, "headers") or ()),
            timestamp_ms=None if time is None or time == -1 else int(time),
            topic=_member(source, "topic"),
            partition=_member(source, "partition"),
            offset=_member(source, "offset"),
        )
    except (TypeError, ValueError, IndexError) as fault:
        raise InvalidInputError(
            f"{type(source).__name__} is not a Kafka record: {fault}",
            advice="Pass the consumer's object, with keys and values as bytes",
        ) from None


def _member(source: Any, name: str) -> Any:
    member = getattr(source, name, None)
    return member() if callable(member) else member


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"keys and values must be bytes, not {type(value).__name__}: leave keys and values undecoded")
