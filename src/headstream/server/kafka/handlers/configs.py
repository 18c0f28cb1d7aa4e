"""Topic settings with Kafka's names. Retention and cleanup can be changed. Other settings are accepted with
values that the server implements or whose effect clients cannot notice; responses contain effective values.

cleanup.policy        delete, or compact, or both       compaction_delay_us
delete.retention.ms   retention of null values          compaction_delay_us
retention.ms          -1 for no limit                   retention_us
retention.bytes       -1 for no limit                   retention_bytes, for all partitions together
headstream.kafka.headers    a convention                kafka_headers
max.message.bytes     up to one batch                   MAX_BATCH_BYTES (effective value)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any, Final

from headstream.broker.accounts.permissions import Rights
from headstream.core.model.topology import MAX_BATCH_BYTES, TopicOptions
from headstream.errors import HeadstreamError, InvalidOptionError
from headstream.server.kafka.calls import NODE_ID, Call, Reply
from headstream.server.kafka.handlers.topic_names import find_place
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError, fault_of

_TOPIC: Final = 2
_BROKER: Final = 4
_OF_TOPIC: Final = 1
_OF_SERVER: Final = 5
"""Source of a setting: the topic, or the server's default."""
_LONG: Final = 5
_INT: Final = 3
_LIST: Final = 7
_STRING: Final = 2
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3

_TOMBSTONES_MS: Final = 86_400_000
"""Default time for which null values stay in a compacted topic, milliseconds; as in Kafka."""
_NEVER: Final = str((1 << 63) - 1)
_FIXED: Final[Mapping[str, tuple[str, int]]] = {
    "max.message.bytes": (str(MAX_BATCH_BYTES), _INT),
    "message.timestamp.type": ("CreateTime", _STRING),
    "compression.type": ("uncompressed", _STRING),
    "min.insync.replicas": ("1", _INT),
}
"""Settings with one value for all topics."""
_NUMBER: Final = re.compile(r"-?\d{1,19}")
_FLAG: Final = re.compile("true|false", re.IGNORECASE)
_RATIO: Final = re.compile(r"\d+(\.\d+)?([eE]-?\d+)?")
_REPLICAS: Final = re.compile(r"|\*|\d+:\d+(,\d+:\d+)*")
_ACCEPTED: Final[Mapping[str, re.Pattern[str]]] = {
    "max.message.bytes": _NUMBER,
    "compression.type": re.compile("uncompressed|gzip|snappy|lz4|zstd|producer"),
    "compression.gzip.level": _NUMBER,
    "compression.lz4.level": _NUMBER,
    "compression.zstd.level": _NUMBER,
    "file.delete.delay.ms": _NUMBER,
    "follower.replication.throttled.replicas": _REPLICAS,
    "index.interval.bytes": _NUMBER,
    "leader.replication.throttled.replicas": _REPLICAS,
    "local.retention.bytes": _NUMBER,
    "local.retention.ms": _NUMBER,
    "message.downconversion.enable": _FLAG,
    "min.cleanable.dirty.ratio": _RATIO,
    "preallocate": _FLAG,
    "remote.copy.disable": _FLAG,
    "remote.log.copy.disable": _FLAG,
    "remote.log.delete.on.disable": _FLAG,
    "segment.bytes": _NUMBER,
    "segment.index.bytes": _NUMBER,
    "segment.jitter.ms": _NUMBER,
    "segment.ms": _NUMBER,
    "unclean.leader.election.enable": _FLAG,
}
"""Accepted values of settings without an effect, which determine how brokers store topics or move topics between brokers."""
_REQUIRED: Final[Mapping[str, tuple[str, str]]] = {
    "flush.messages": (_NEVER, "choose when messages are synced to the disk with `headstream topic create --fsync`"),
    "flush.ms": (_NEVER, "choose when messages are synced to the disk with `headstream topic create --fsync`"),
    "max.compaction.lag.ms": (_NEVER, "the server decides when to compact, at the latest after an hour"),
    "message.timestamp.after.max.ms": (_NEVER, "timestamps are not limited"),
    "message.timestamp.before.max.ms": (_NEVER, "timestamps are not limited"),
    "message.timestamp.difference.max.ms": (_NEVER, "timestamps are not limited"),
    "message.timestamp.type": ("CreateTime", "records keep the timestamps of their producers"),
    "min.compaction.lag.ms": ("0", "closed segments of any age are compacted"),
    "min.insync.replicas": ("1", "there is one broker"),
    "remote.storage.enable": ("false", "there is no remote storage"),
}
"""Settings with one accepted value, and the reason; other values would have no effect."""


def _format_policy(options: TopicOptions) -> str:
    if options.compaction_delay_us is None:
        return "delete"
    return "compact" if options.retention_us is None and options.retention_bytes is None else "compact,delete"


def _format_limit(value: int | None, unit: int = 1) -> str:
    return "-1" if value is None else str(value // unit)


_CHANGEABLE: Final[Mapping[str, tuple[Callable[[TopicOptions], str], int]]] = {
    "cleanup.policy": (_format_policy, _LIST),
    "retention.ms": (lambda options: _format_limit(options.retention_us, 1000), _LONG),
    "retention.bytes": (lambda options: _format_limit(options.retention_bytes), _LONG),
    "delete.retention.ms": (
        lambda options: str(_TOMBSTONES_MS if options.compaction_delay_us is None else options.compaction_delay_us // 1000),
        _LONG,
    ),
    "headstream.kafka.headers": (lambda options: options.kafka_headers or "headstream", _STRING),
}


def topic_configs(options: TopicOptions) -> list[dict[str, Any]]:
    """Return the settings of a topic for a response; values equal to the server's defaults are marked as defaults."""
    defaults = TopicOptions()
    found = [
        {
            "name": name,
            "value": format_value(options),
            "read_only": False,
            "config_source": _OF_SERVER if format_value(options) == format_value(defaults) else _OF_TOPIC,
            "config_type": kind,
        }
        for name, (format_value, kind) in _CHANGEABLE.items()
    ]
    found += [
        {"name": name, "value": value, "read_only": True, "config_source": _OF_SERVER, "config_type": kind}
        for name, (value, kind) in _FIXED.items()
    ]
    return sorted(found, key=lambda config: str(config["name"]))


def apply_config(options: TopicOptions, name: str, value: str | None) -> TopicOptions:
    """Return a topic's options with one changed setting (None: the default); ProtocolError if unknown, read-only or invalid."""
    try:
        if name == "cleanup.policy":
            return _apply_policy(options, value or "delete")
        if name == "retention.ms":
            return replace(options, retention_us=_limit(name, value, 1000))
        if name == "retention.bytes":
            return replace(options, retention_bytes=_limit(name, value, 1))
        if name == "delete.retention.ms":
            delay_ms = _TOMBSTONES_MS if value is None else _number(name, value)
            return options if options.compaction_delay_us is None else replace(options, compaction_delay_us=1000 * delay_ms)
        if name == "headstream.kafka.headers":
            return TopicOptions(**{**asdict(options), "kafka_headers": value})
    except InvalidOptionError as error:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{name}: {error.what}") from None
    _check_accepted(name, value)
    return options


def _check_accepted(name: str, value: str | None) -> None:
    """Raise an error for an unknown setting, or for a value that the server does not implement."""
    accepted, required = _ACCEPTED.get(name), _REQUIRED.get(name)
    if accepted is None and required is None:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"unknown setting {name}")
    if value is None:
        return
    if required is not None and value != required[0]:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{name} must be {required[0]}: {required[1]}")
    if accepted is not None and not accepted.fullmatch(value):
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{name} cannot be {value!r}")
    if name == "max.message.bytes" and int(value) > MAX_BATCH_BYTES:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{name} must be at most {MAX_BATCH_BYTES}")


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{name} must be a whole number, not {value!r}") from None


def _limit(name: str, value: str | None, unit: int) -> int | None:
    number = -1 if value is None else _number(name, value)
    return None if number < 0 else number * unit


def _apply_policy(options: TopicOptions, value: str) -> TopicOptions:
    wanted = {word.strip() for word in value.split(",")} - {""}
    if not wanted or wanted - {"compact", "delete"}:
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"cleanup.policy must be compact, delete or both, not {value!r}")
    if "compact" not in wanted:
        return replace(options, compaction_delay_us=None)
    if "delete" not in wanted:
        options = replace(options, retention_us=None, retention_bytes=None)
    if options.compaction_delay_us is not None:
        return options
    return replace(options, compaction_delay_us=1000 * _TOMBSTONES_MS)


def describe_configs(call: Call) -> Reply:
    """Return topic settings and broker settings."""
    return {"results": [_describe(call, resource) for resource in call.request["resources"]]}


def _describe(call: Call, resource: dict[str, Any]) -> dict[str, Any]:
    named = {"resource_type": resource["resource_type"], "resource_name": resource["resource_name"]}
    try:
        configs = _find(call, resource)
    except HeadstreamError as error:
        return named | {"error_code": fault_of(error), "error_message": error.what}
    wanted = resource["configuration_keys"]
    return named | {"configs": [config for config in configs if wanted is None or config["name"] in wanted]}


def _find(call: Call, resource: dict[str, Any]) -> list[dict[str, Any]]:
    if resource["resource_type"] == _TOPIC:
        return topic_configs(find_place(call, resource["resource_name"], Rights.read_topic).topic.options)
    if resource["resource_type"] == _BROKER and resource["resource_name"] in ("", str(NODE_ID)):
        fixed = {"message.max.bytes": str(MAX_BATCH_BYTES), "auto.create.topics.enable": "false", "broker.id": str(NODE_ID)}
        return [
            {"name": name, "value": value, "read_only": True, "config_source": _OF_SERVER, "config_type": _STRING}
            for name, value in fixed.items()
        ]
    raise ProtocolError(ErrorCode.INVALID_REQUEST, "settings exist only for topics and for broker 1")


def alter_configs(call: Call) -> Reply:
    """Replace all topic settings."""
    return _change_all(call, {"config_operation": _SET}, replaces_all=True)


def change_configs(call: Call) -> Reply:
    """Change individual topic settings."""
    return _change_all(call, {}, replaces_all=False)


def _change_all(call: Call, given: dict[str, int], *, replaces_all: bool) -> dict[str, Any]:
    responses = []
    for resource in call.request["resources"]:
        fault, message = ErrorCode.NONE, None
        try:
            _change(call, resource, [config | given for config in resource["configs"]], replaces_all)
        except HeadstreamError as error:
            fault, message = fault_of(error), error.what
        named = {"resource_type": resource["resource_type"], "resource_name": resource["resource_name"]}
        responses.append(named | {"error_code": fault, "error_message": message})
    return {"responses": responses}


def _change(call: Call, resource: dict[str, Any], configs: list[dict[str, Any]], replaces_all: bool) -> None:
    if resource["resource_type"] != _TOPIC:
        raise ProtocolError(ErrorCode.INVALID_REQUEST, "only topic settings can be changed")
    server = call.context.dispatcher
    with server.broker.backing.writable_log().administration:
        topic = find_place(call, resource["resource_name"], Rights.manage_topic).topic
        options = (
            replace(
                TopicOptions(),
                deduplication_count=topic.options.deduplication_count,
                summary_headers=topic.options.summary_headers,
            )
            if replaces_all
            else topic.options
        )
        for config in configs:
            name, value, operation = config["name"], config["value"], config["config_operation"]
            if operation in (_APPEND, _SUBTRACT):
                value = _combined(options, name, value or "", operation)
            options = apply_config(options, name, None if operation == _DELETE else value)
        if not call.request["validate_only"]:
            changed = ("retention_us", "retention_bytes", "compaction_delay_us", "kafka_headers")
            server.broker.topics.update(topic.name, **{name: getattr(options, name) for name in changed})


def _combined(options: TopicOptions, name: str, value: str, operation: int) -> str:
    """Return the value of a list setting with elements added or removed."""
    if name != "cleanup.policy":
        raise ProtocolError(ErrorCode.INVALID_CONFIG, f"{name} is not a list")
    words = set(_format_policy(options).split(","))
    more = {word.strip() for word in value.split(",")}
    return ",".join(sorted(words | more if operation == _APPEND else words - more))
