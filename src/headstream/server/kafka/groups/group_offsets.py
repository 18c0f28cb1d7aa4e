"""Committed offsets of groups, shared with groups of the other transports. Kafka's offset metadata is not stored.

A committed offset below 0 deletes the group's offset, because clients treat negative offsets as no offset.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from headstream.broker.accounts.permissions import Rights
from headstream.broker.commands.topic_lookup import FoundTopic
from headstream.core.model.polling import OffsetOwner
from headstream.errors import HeadstreamError, NotFoundError, OffsetOutOfRangeError, PartitionNotFoundError
from headstream.server.kafka.calls import Call, Reply
from headstream.server.kafka.groups.group_members import GroupState
from headstream.server.kafka.groups.groups import check_group, stored_in
from headstream.server.kafka.handlers.topic_names import find_place, is_allowed, list_places
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError, fault_of

_NONE: Final = -1
_GROUPS_FROM: Final = 8
"""First version of OffsetFetch that reads several groups."""


def _find(call: Call, name: str) -> FoundTopic:
    return find_place(call, name, Rights.poll)


def _check_partition(place: FoundTopic, index: int) -> None:
    if not 0 <= index < place.topic.partitions:
        raise PartitionNotFoundError(f"the topic {place.topic.name} has no partition {index}")


def commit_offsets(call: Call) -> Reply:
    """Commit offsets for a member of a group, or for a group without members."""
    request, fault = call.request, ErrorCode.NONE
    try:
        check_group(call, request["group_id"])
        _check_member(call, request["group_id"], request["generation_id_or_member_epoch"])
    except HeadstreamError as error:
        fault = fault_of(error)
    topics = []
    for topic in request["topics"]:
        answers = []
        for partition in topic["partitions"]:
            code = fault or _commit(call, topic["name"], partition)
            answers.append({"partition_index": partition["partition_index"], "error_code": code})
        topics.append({"name": topic["name"], "partitions": answers})
    return {"topics": topics}


def _check_member(call: Call, name: str, generation: int) -> None:
    """Raise an error if the group has members and the committing client is not a member."""
    request, coordinator = call.request, call.context.coordinator
    group = coordinator.find(call, name)
    if group is None or not group.members:
        if generation >= 0:
            raise ProtocolError(ErrorCode.ILLEGAL_GENERATION, "the group has no members")
        return
    if generation < 0 and not request["member_id"]:
        raise ProtocolError(ErrorCode.UNKNOWN_MEMBER_ID, "only the group's members can commit")
    group.check(request["member_id"], generation, request.get("group_instance_id"), coordinator.monotonic())
    if group.state is GroupState.COMPLETING:
        raise ProtocolError(ErrorCode.REBALANCE_IN_PROGRESS, "the group is rebalancing")


def _commit(call: Call, name: str, partition: dict[str, Any]) -> ErrorCode:
    offset: int = partition["committed_offset"]
    try:
        place = _find(call, name)
        _check_partition(place, partition["partition_index"])
        consumer = OffsetOwner.group(call.request["group_id"])
        number = partition["partition_index"] + 1
        if offset < 0:
            call.context.dispatcher.broker.offsets.forget(place.topic, consumer, number)
            return ErrorCode.NONE
        call.context.dispatcher.broker.offsets.commit(place.topic.name, consumer, {number: offset}, user_id=call.session.user_id)
    except OffsetOutOfRangeError:  # the topic was purged during the commit
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    except HeadstreamError as error:
        return fault_of(error)
    return ErrorCode.NONE


def fetch_offsets(call: Call) -> Reply:
    """Return committed offsets of groups; -1 for partitions without a committed offset."""
    if call.version >= _GROUPS_FROM:
        return {"groups": [_fetch(call, group["group_id"], group["topics"]) for group in call.request["groups"]]}
    return _fetch(call, call.request["group_id"], call.request["topics"])


def _fetch(call: Call, name: str, wanted: list[dict[str, Any]] | None) -> dict[str, Any]:
    try:
        check_group(call, name)
        topics = _fetch_all(call, name) if wanted is None else [_fetch_topic(call, name, topic) for topic in wanted]
    except HeadstreamError as error:
        fault = fault_of(error)
        topics = [
            {"name": topic["name"], "partitions": [_answer(index, _NONE, fault) for index in topic["partition_indexes"]]}
            for topic in wanted or ()
        ]
        return {"group_id": name, "topics": topics, "error_code": fault}
    return {"group_id": name, "topics": topics, "error_code": ErrorCode.NONE}


def _answer(index: int, offset: int, fault: ErrorCode = ErrorCode.NONE) -> dict[str, Any]:
    return {"partition_index": index, "committed_offset": offset, "metadata": "", "error_code": fault}


def _fetch_topic(call: Call, group: str, topic: dict[str, Any]) -> dict[str, Any]:
    try:
        committed = call.context.dispatcher.broker.offsets.committed(
            _find(call, topic["name"]).topic.name, OffsetOwner.group(group)
        )
    except HeadstreamError as error:
        fault = fault_of(error)
        is_unknown = fault is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION  # the topic has no committed offsets, which is not an error
        answers = [_answer(index, _NONE, ErrorCode.NONE if is_unknown else fault) for index in topic["partition_indexes"]]
        return {"name": topic["name"], "partitions": answers}
    answers = [_answer(index, committed.get(index + 1, _NONE)) for index in topic["partition_indexes"]]
    return {"name": topic["name"], "partitions": answers}


def _fetch_all(call: Call, group: str) -> list[dict[str, Any]]:
    found, rights, offsets = [], call.rights, call.context.dispatcher.broker.offsets
    for name, place in list_places(call):
        if is_allowed(rights.poll, place.stream.id, place.topic.id) and group in stored_in(call, place):
            committed: dict[int, int] = {}
            with suppress(NotFoundError):  # the topic was deleted since it was listed
                committed = offsets.committed(place.topic.name, OffsetOwner.group(group))
            answers = [_answer(number - 1, offset) for number, offset in sorted(committed.items())]
            if answers:
                found.append({"name": name, "partitions": answers})
    return found


def delete_offsets(call: Call) -> Reply:
    """Delete the offsets that a group without members has committed in the given partitions."""
    name = call.request["group_id"]
    try:
        check_group(call, name)
        group = call.context.coordinator.find(call, name)
        if group is not None and group.members:
            raise ProtocolError(ErrorCode.NON_EMPTY_GROUP, "the group must not have members")
    except HeadstreamError as error:
        return {"error_code": fault_of(error)}
    topics = []
    for topic in call.request["topics"]:
        answers = [_forget(call, name, topic["name"], each["partition_index"]) for each in topic["partitions"]]
        topics.append({"name": topic["name"], "partitions": answers})
    return {"topics": topics}


def _forget(call: Call, group: str, name: str, index: int) -> dict[str, Any]:
    try:
        place = _find(call, name)
        _check_partition(place, index)
        call.context.dispatcher.broker.offsets.forget(place.topic, OffsetOwner.group(group), index + 1)
    except HeadstreamError as error:
        return {"partition_index": index, "error_code": fault_of(error)}
    return {"partition_index": index, "error_code": ErrorCode.NONE}
