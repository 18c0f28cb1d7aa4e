"""The options of `format("headstream")` over Kafka, translated for Spark's Kafka source and sink.

url                 kafka://host:9092,other:9092       kafka://user:password@host:9093 uses TLS and SASL PLAIN
                    ?kafka.*: settings as below
kafka.*             settings of Kafka's clients; they override settings in the URL
subscribe, assign   topics as stream/topic (stream.topic in Kafka) or by a Kafka name; partitions from 0
subscribePattern    a regular expression (Java's) for Kafka names
startingOffsets     earliest by default, also for streams
topic               for writes: the topic of rows without a column `topic`
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from headstream.client.transports.kafka.address import java_settings
from headstream.core.codec.kafka import to_kafka_topic
from headstream.core.model.header_values import HeaderKind
from headstream.core.model.urls import split_url
from headstream.errors import InvalidInputError, InvalidOptionError
from headstream.spark.sink.options import parse_header_kinds
from headstream.spark.source.options import RowShape, parse_shape, parse_states

_WHICH: Final = ("subscribe", "subscribePattern", "assign")
_STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_BATCH_ONLY: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_BY_PARTITION: Final = ("startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp")
_HANDED_ON: Final = (
    *_WHICH, *_BY_PARTITION, *_STREAM_ONLY, "startingTimestamp", "endingTimestamp", "startingOffsetsByTimestampStrategy",
    "minPartitions", "maxRecordsPerPartition", "failOnDataLoss", "groupIdPrefix", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs", "kafkaConsumer.pollTimeoutMs",
)  # fmt: skip
_OURS: Final = ("url", "path", "headers", "headerColumns", "headerMismatch", "columns", "states")
_SINK: Final = ("url", "path", "topic", "headerColumns", "checkpointLocation", "queryName")


@dataclass(frozen=True, slots=True)
class KafkaReadOptions:
    """Validated read options.

    Args:
        states: Codes of the states to read, or None for all.
    """

    source: Mapping[str, str]
    shape: RowShape
    states: frozenset[int] | None


@dataclass(frozen=True, slots=True)
class KafkaWriteOptions:
    """Validated write options.

    Args:
        topic: Kafka's name of the topic for rows without a topic, or None.
        header_columns: Columns that become headers, each with the requested kind or None.
    """

    sink: Mapping[str, str]
    topic: str | None
    header_columns: tuple[tuple[str, HeaderKind | None], ...]


def is_kafka_url(options: Mapping[str, Any]) -> bool:
    """Return whether options name a Kafka cluster."""
    given = {name.lower(): value for name, value in options.items()}
    return str(given.get("url") or given.get("path") or "").strip().lower().startswith("kafka:")


def parse_read_options(options: Mapping[str, str], *, streaming: bool) -> KafkaReadOptions:
    """Return the validated read options; option names are case-insensitive."""
    given = {name.lower(): str(value) for name, value in options.items()}
    _check_known(given, (*_HANDED_ON, *_OURS))
    given_names = [option for option in _WHICH if option.lower() in given]
    if len(given_names) != 1:
        raise InvalidOptionError(
            f"{given_names[0]} and {given_names[1]} both name topics" if given_names else "the option subscribe is missing",
            advice='Set only one option for topics, for example .option("subscribe", "shop/orders")',
        )
    for option in _BATCH_ONLY if streaming else _STREAM_ONLY:
        if option.lower() in given:
            what, other = ("batch reads", "streams") if streaming else ("streams", "batch reads")
            raise InvalidOptionError(f"{option} is supported only in {what}, not in {other}")
    source = {name: given[name.lower()] for name in _HANDED_ON if name.lower() in given}
    if "subscribe" in source:
        names = [_topic(name.strip(), "subscribe") for name in source["subscribe"].split(",") if name.strip()]
        if not names or len(set(names)) < len(names):
            raise InvalidOptionError(f"subscribe={source['subscribe']} must not contain a duplicate or empty topic")
        source["subscribe"] = ",".join(names)
    for option in ("assign", *_BY_PARTITION):
        if source.get(option, "").lstrip().startswith("{"):
            source[option] = _rename_topics(option, source[option])
    if not any(option in source for option in ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")):
        source["startingOffsets"] = "earliest"
    return KafkaReadOptions(_connection(given) | source, parse_shape(given), parse_states(given.get("states", "available")))


def parse_write_options(options: Mapping[str, str]) -> KafkaWriteOptions:
    """Return the validated write options. Arguments and errors are as for parse_read_options()."""
    given = {name.lower(): str(value) for name, value in options.items()}
    _check_known(given, _SINK)
    topic = given.get("topic")
    sink = _connection(given)
    if "checkpointlocation" in given:
        sink["checkpointLocation"] = given["checkpointlocation"]
    return KafkaWriteOptions(
        sink, None if topic is None else _topic(topic, "topic"), parse_header_kinds(given.get("headercolumns", ""))
    )


def _check_known(given: Mapping[str, str], names: tuple[str, ...]) -> None:
    known = {name.lower(): name for name in names}
    for name in given:
        if name not in known and not name.startswith("kafka."):
            close = difflib.get_close_matches(name, known, n=1)
            advice = f"Did you mean {known[close[0]]}?" if close else f"Use one of {', '.join(names)}, or a kafka.* option"
            raise InvalidOptionError(f"unknown option {name!r} of the headstream format over Kafka", advice=advice)


def _connection(given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of Kafka's clients, from the URL and from the options kafka.*."""
    if "url" in given and "path" in given:
        raise InvalidOptionError("the option url and the path both name a Kafka cluster", advice="Set one of them")
    url = (given.get("url") or given["path"]).strip()
    return java_settings(split_url(url), {name: value for name, value in given.items() if name.startswith("kafka.")})


def _topic(name: str, option: str) -> str:
    try:
        return to_kafka_topic(name)
    except InvalidInputError as error:
        raise InvalidOptionError(f"{option}: {error}") from error


def _rename_topics(option: str, text: str) -> str:
    try:
        return json.dumps({_topic(topic, option): value for topic, value in json.loads(text).items()})
    except (ValueError, AttributeError) as error:
        if isinstance(error, InvalidOptionError):
            raise
        raise InvalidOptionError(
            f"{option} cannot be read: {text!r}", advice='Write JSON by topic, for example {"shop/orders": {"0": 23, "1": -2}}'
        ) from None
