"""Requests that create and delete topics, add partitions, and delete partition messages before an offset."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any, Final

from headstream.broker.accounts.permissions import Rights
from headstream.broker.commands.topic_lookup import FoundTopic
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import Limits, NewTopic, TopicOptions, check_partition_count
from headstream.errors import HeadstreamError, InvalidOptionError, PartitionNotFoundError, PermissionDeniedError
from headstream.log.administration import delete_topic
from headstream.log.upkeep.prefix_removal import remove_before
from headstream.server.kafka.calls import Call, Reply
from headstream.server.kafka.handlers.configs import apply_config, topic_configs
from headstream.server.kafka.handlers.fetch import find_bounds
from headstream.server.kafka.handlers.topic_names import find_place, list_places, topic_id, topic_name
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError, fault_of
from headstream.server.reporting.storage_errors import STORAGE_ERRORS

_DEFAULT: Final = -1
"""The value with which a client lets the server choose a number."""
_END: Final = -1
"""The offset with which a client selects the end of a partition."""


def create_topics(call: Call) -> Reply:
    """Create topics with the limits `wide`, so that null values and long keys can be stored."""
    names = Counter(topic["name"] for topic in call.request["topics"])
    return {"topics": [_answer(call, topic, names) for topic in call.request["topics"]]}


def _answer(call: Call, wanted: dict[str, Any], names: Counter[str]) -> dict[str, Any]:
    name = wanted["name"]
    try:
        if names[name] > 1:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "duplicate topic")
        place, options = _create(call, wanted)
    except HeadstreamError as error:
        return {"name": name, "error_code": fault_of(error), "error_message": error.what}
    made = {"name": name, "error_code": ErrorCode.NONE, "num_partitions": _partitions(call, wanted), "replication_factor": 1}
    if place is not None:
        made["topic_id"] = topic_id(place)
    return made | {"configs": topic_configs(options)}


def _partitions(call: Call, wanted: dict[str, Any]) -> int:
    count: int = wanted["num_partitions"]
    if wanted["assignments"]:
        return len(wanted["assignments"])
    return call.context.settings.default_partitions if count == _DEFAULT else count


def _create(call: Call, wanted: dict[str, Any]) -> tuple[FoundTopic | None, TopicOptions]:
    name, count, server = topic_name(call, wanted["name"]), _partitions(call, wanted), call.context.dispatcher
    _check_copies(wanted)
    try:
        check_partition_count(name, count)
    except InvalidOptionError as error:
        raise ProtocolError(ErrorCode.INVALID_PARTITIONS, error.what) from None
    options = replace(
        TopicOptions(deduplication_count=server.settings.deduplication_count),
        retention_us=server.settings.message_expiry_us,
        retention_bytes=server.settings.max_topic_bytes,
    )
    for config in wanted["configs"]:
        options = apply_config(options, config["name"], config["value"])
    with server.broker.backing.writable_log().administration:
        _check_right(call, name)
        stream = server.lookup.snapshot().get(name.stream)
        if stream is not None and name.topic in stream.topics:
            raise ProtocolError(ErrorCode.TOPIC_ALREADY_EXISTS, f"the topic {wanted['name']!r} already exists")
        if call.request["validate_only"]:
            return None, options
        server.broker.topics.create(NewTopic(name, count, Limits.WIDE, fsync=server.settings.fsync, options=options))
    return server.lookup.topic(name.stream, name.topic), options


def _check_copies(wanted: dict[str, Any]) -> None:
    """Raise an error if more than one replica is requested."""
    if wanted["replication_factor"] not in (_DEFAULT, 1) and not wanted["assignments"]:
        raise ProtocolError(ErrorCode.INVALID_REPLICATION_FACTOR, "the replication factor must be 1: there is one broker")
    numbers = sorted(each["partition_index"] for each in wanted["assignments"])
    if numbers != list(range(len(numbers))) or any(len(each["broker_ids"]) != 1 for each in wanted["assignments"]):
        raise ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "assignments must list partitions from 0, with one broker each")


def _check_right(call: Call, name: TopicName) -> None:
    stream = call.context.dispatcher.lookup.snapshot().get(name.stream)
    try:
        if stream is None:
            call.rights.create_stream()
        else:
            call.rights.create_topic(stream.id)
    except PermissionDeniedError as error:
        raise ProtocolError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, error.what) from None


def delete_topics(call: Call) -> Reply:
    """Delete topics with all their messages, by name or by id."""
    named = call.request.get("topics")
    if named is None:
        named = [{"name": name} for name in call.request["topic_names"]]
    return {"responses": [_delete(call, one) for one in named]}


def _delete(call: Call, named: dict[str, Any]) -> dict[str, Any]:
    name, number = named["name"], named.get("topic_id")
    if name is None:
        name = next((listed for listed, place in list_places(call) if topic_id(place) == number), None)
        if name is None:
            return {"name": None, "topic_id": number, "error_code": ErrorCode.UNKNOWN_TOPIC_ID}
    server = call.context.dispatcher
    log = server.broker.backing.writable_log()
    try:
        with log.administration:
            place = find_place(call, name, Rights.manage_topic)
            delete_topic(log, place.topic)
        server.connection_groups.forget(place.stream.number, place.topic.id)
        server.balance.forget(place.stream.number, place.topic.id)
    except HeadstreamError as error:
        return {"name": name, "error_code": fault_of(error), "error_message": error.what}
    return {"name": name, "topic_id": topic_id(place), "error_code": ErrorCode.NONE}


def create_partitions(call: Call) -> Reply:
    """Add partitions to topics."""
    return {"results": [_add_partitions(call, topic) for topic in call.request["topics"]]}


def _add_partitions(call: Call, wanted: dict[str, Any]) -> dict[str, Any]:
    name, server = wanted["name"], call.context.dispatcher
    try:
        with server.broker.backing.writable_log().administration:
            place = find_place(call, name, Rights.manage_topic)
            more = wanted["count"] - place.topic.partitions
            if more < 1:
                raise ProtocolError(ErrorCode.INVALID_PARTITIONS, f"the topic already has {place.topic.partitions} partitions")
            if wanted["assignments"] is not None and len(wanted["assignments"]) != more:
                raise ProtocolError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{more} assignments are required")
            try:
                check_partition_count(name, wanted["count"])
            except InvalidOptionError as error:
                raise ProtocolError(ErrorCode.INVALID_PARTITIONS, error.what) from None
            if not call.request["validate_only"]:
                server.broker.partitions.create(place.topic.name, more)
    except HeadstreamError as error:
        return {"name": name, "error_code": fault_of(error), "error_message": error.what}
    return {"name": name, "error_code": ErrorCode.NONE}


def delete_records(call: Call) -> Reply:
    """Delete partition messages before an offset; return the new start offsets. Each partition can fail separately."""
    return {
        "topics": [
            {"name": topic["name"], "partitions": [_delete_records(call, topic["name"], each) for each in topic["partitions"]]}
            for topic in call.request["topics"]
        ]
    }


def _delete_records(call: Call, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    index: int = wanted["partition_index"]
    backing = call.context.dispatcher.broker.backing
    try:
        place = find_place(call, name, Rights.manage_topic)
        if not 0 <= index < place.topic.partitions:
            raise PartitionNotFoundError(f"the topic {name!r} has no partition {index}")
        offset: int = find_bounds(call, place, index + 1)[1] if wanted["offset"] == _END else wanted["offset"]
        first = remove_before(backing.writable_log(), place.topic, index + 1, offset)
    except HeadstreamError as error:
        fault = fault_of(error)
        STORAGE_ERRORS.log_once(error, fault)
        return {"partition_index": index, "low_watermark": -1, "error_code": fault}
    return {"partition_index": index, "low_watermark": first, "error_code": ErrorCode.NONE}
