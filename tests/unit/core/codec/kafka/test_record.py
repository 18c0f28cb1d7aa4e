"""Unit tests of headstream.core.codec.kafka.record."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.core.codec.kafka import KafkaRecord, decode_record, read_record
from headstream.errors import InvalidInputError


class _Confluent:
    """A message as confluent-kafka's: every member is a method."""

    def __init__(self, error: str | None = None, timestamp: tuple[int, int] = (1, 5)) -> None:
        self._error, self._timestamp = error, timestamp

    def error(self) -> str | None:
        return self._error

    def timestamp(self) -> tuple[int, int]:
        return self._timestamp

    def key(self) -> bytes:
        return b"k"

    def value(self) -> None:
        return None

    def headers(self) -> None:
        return None

    def topic(self) -> str:
        return "shop.orders"

    def partition(self) -> int:
        return 2

    def offset(self) -> int:
        return 9


def test_read_record_reads_methods_and_refuses_what_is_no_record() -> None:
    message = decode_record(_Confluent())
    assert (message.topic, message.partition, message.offset, message.timestamp) == ("shop/orders", 2, 9, 5_000)
    assert read_record(_Confluent(timestamp=(0, -1))).timestamp_ms is None
    with pytest.raises(InvalidInputError, match="reports an error instead of a record: end of partition"):
        read_record(_Confluent("end of partition"))
    no_record: Any = type("Decoded", (), {"value": {"a": 1}})()
    with pytest.raises(InvalidInputError, match="leave keys and values undecoded"):
        read_record(no_record)


def test_arguments_name_what_each_client_takes() -> None:
    record = KafkaRecord(value=b"v", topic="t", timestamp_ms=5, headers=(("a", None),))
    assert record.arguments("confluent") == {"topic": "t", "timestamp": 5, "value": b"v", "key": None, "headers": [("a", None)]}
    assert record.arguments("aiokafka")["timestamp_ms"] == 5
    with pytest.raises(InvalidInputError, match="cannot send a header that is null"):
        record.arguments("kafka-python")
