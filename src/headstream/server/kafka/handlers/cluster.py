"""The cluster as clients see it: one broker, and the topics that the user is allowed to access."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import Any

from headstream.broker.commands.topic_lookup import FoundTopic
from headstream.errors import HeadstreamError, PermissionDeniedError
from headstream.server.kafka.calls import NO_OPERATIONS, NODE_ID, Call, Reply
from headstream.server.kafka.handlers.record_batches import LEADER_EPOCH
from headstream.server.kafka.handlers.topic_names import find_place, is_allowed, list_places, topic_id
from headstream.server.kafka.protocol.error_codes import ErrorCode, fault_of

_OPERATIONS = {
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "describe_configs": 10,
    "alter_configs": 11,
    "idempotent_write": 12,
}
"""The bits of a client's operations on a topic or the cluster."""


def list_topics(call: Call) -> Reply:
    """Return the broker and the named topics, or all topics."""
    named = call.request["topics"]
    if named is None or (call.version == 0 and not named):
        topics = [_describe(call, name, place) for name, place in list_places(call)]
    else:
        topics = [_find(call, one) for one in named]
    return {
        "brokers": [{"node_id": NODE_ID, "host": call.advertised.host, "port": call.advertised.port}],
        "cluster_id": call.context.dispatcher.broker.identity,
        "controller_id": NODE_ID,
        "topics": topics,
        "cluster_authorized_operations": _cluster_operations(call),
    }


def describe_cluster(call: Call) -> Reply:
    """Return the broker."""
    if call.request.get("endpoint_type", 1) != 1:
        return {"error_code": ErrorCode.INVALID_REQUEST, "error_message": "there are no separate controllers", "cluster_id": ""}
    return {
        "cluster_id": call.context.dispatcher.broker.identity or "",
        "controller_id": NODE_ID,
        "brokers": [{"broker_id": NODE_ID, "host": call.advertised.host, "port": call.advertised.port}],
        "cluster_authorized_operations": _cluster_operations(call),
    }


def describe_acls(call: Call) -> Reply:
    """Return the error of a broker without an authorizer, because users have rights instead of ACLs."""
    return {
        "error_code": ErrorCode.SECURITY_DISABLED,
        "error_message": "ACLs are not supported: the server's users have permissions instead",
    }


def describe_log_dirs(call: Call) -> Reply:
    """Return the log's directory with the size of each partition, for users who are allowed to read the server's statistics."""
    server = call.context.dispatcher
    try:
        call.rights.read_servers()
    except PermissionDeniedError:
        return {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "results": []}
    wanted = call.request["topics"]
    asked = None if wanted is None else {topic["topic"]: topic["partitions"] for topic in wanted}
    topics = []
    for name, place in list_places(call):
        if asked is None or name in asked:
            sizes = [partition.size_bytes for partition in server.counts.topic(place.topic).partitions]
            numbers = range(len(sizes)) if asked is None else [n for n in asked[name] if 0 <= n < len(sizes)]
            topics.append({"name": name, "partitions": [{"partition_index": n, "partition_size": sizes[n]} for n in numbers]})
    log = server.broker.backing.log
    directory = {"error_code": ErrorCode.NONE, "log_dir": "memory" if log.is_memory else log.root, "topics": topics}
    if not log.is_memory:
        disk = shutil.disk_usage(log.root)
        directory |= {"total_bytes": disk.total, "usable_bytes": disk.free}
    return {"results": [directory]}


def list_reassignments(call: Call) -> Reply:
    """Return an empty list, because there is only one broker."""
    return {"error_code": ErrorCode.NONE}


def _find(call: Call, named: dict[str, Any]) -> dict[str, Any]:
    name = named["name"]
    if name is None:
        for listed, place in list_places(call):
            if topic_id(place) == named["topic_id"]:
                return _describe(call, listed, place)
        return {"error_code": ErrorCode.UNKNOWN_TOPIC_ID, "name": None, "topic_id": named["topic_id"]}
    try:
        place = find_place(call, name, lambda rights, stream, topic: _check_known(call, stream, topic))
    except HeadstreamError as error:
        return {"error_code": fault_of(error), "name": name}
    return _describe(call, name, place)


def _check_known(call: Call, stream: int, topic: int) -> None:
    rights = call.rights
    if not (is_allowed(rights.poll, stream, topic) or is_allowed(rights.send, stream, topic)):
        rights.read_topic(stream, topic)


def _describe(call: Call, name: str, place: FoundTopic) -> dict[str, Any]:
    is_asked = call.request.get("include_topic_authorized_operations", False)
    return {
        "error_code": ErrorCode.NONE,
        "name": name,
        "topic_id": topic_id(place),
        "partitions": [
            {
                "partition_index": number,
                "leader_id": NODE_ID,
                "leader_epoch": LEADER_EPOCH,
                "replica_nodes": [NODE_ID],
                "isr_nodes": [NODE_ID],
            }
            for number in range(place.topic.partitions)
        ],
        "topic_authorized_operations": _operations(call, place) if is_asked else NO_OPERATIONS,
    }


def _cluster_operations(call: Call) -> int:
    if not call.request.get("include_cluster_authorized_operations", False):
        return NO_OPERATIONS
    allowed = ["describe", "describe_configs"]
    if is_allowed(call.rights.create_stream):
        allowed.append("create")
    if is_allowed(call.rights.send_somewhere):
        allowed.append("idempotent_write")
    return _bits(allowed)


def _operations(call: Call, place: FoundTopic) -> int:
    rights, where = call.rights, (place.stream.id, place.topic.id)
    allowed = ["describe", "describe_configs"]
    if is_allowed(rights.poll, *where):
        allowed.append("read")
    if is_allowed(rights.send, *where):
        allowed.append("write")
    if is_allowed(rights.manage_topic, *where):
        allowed += ["delete", "alter", "alter_configs"]
    return _bits(allowed)


def _bits(names: Iterable[str]) -> int:
    return sum(1 << _OPERATIONS[name] for name in names)
