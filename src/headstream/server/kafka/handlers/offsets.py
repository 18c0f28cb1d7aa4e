"""First offsets and end offsets of partitions, and offsets by append time."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.permissions import Rights
from headstream.broker.commands.topic_lookup import FoundTopic
from headstream.errors import HeadstreamError, PartitionNotFoundError
from headstream.server.kafka.calls import Call, Reply
from headstream.server.kafka.handlers.fetch import check_epoch, find_bounds
from headstream.server.kafka.handlers.record_batches import LEADER_EPOCH
from headstream.server.kafka.handlers.topic_names import find_place
from headstream.server.kafka.protocol.error_codes import ErrorCode, fault_of

_LATEST, _EARLIEST, _NEWEST = -1, -2, -3
_MOST_MS: Final = ((1 << 63) - 1) // 1000
_NOWHERE: Final = -1


def list_offsets(call: Call) -> Reply:
    """Return the first offset of each partition, the end offset, or the first offset at a time."""
    topics = []
    for topic in call.request["topics"]:
        answers = [_list(call, topic["name"], partition) for partition in topic["partitions"]]
        topics.append({"name": topic["name"], "partitions": answers})
    return {"topics": topics}


def _list(call: Call, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
    index = wanted["partition_index"]
    try:
        place = _find(call, name, index, wanted.get("current_leader_epoch", -1))
        offset, time_ms = _offset_of(call, place, index + 1, wanted["timestamp"])
    except HeadstreamError as error:
        return {"partition_index": index, "error_code": fault_of(error)}
    return {"partition_index": index, "offset": offset, "timestamp": time_ms, "leader_epoch": LEADER_EPOCH}


def _find(call: Call, name: str, index: int, epoch: int) -> FoundTopic:
    place = find_place(call, name, Rights.poll)
    if not 0 <= index < place.topic.partitions:
        raise PartitionNotFoundError(f"the topic {name!r} has no partition {index}")
    check_epoch(epoch)
    return place


def _offset_of(call: Call, place: FoundTopic, number: int, time_ms: int) -> tuple[int, int]:
    first, end = find_bounds(call, place, number)
    if time_ms == _LATEST:
        return end, _NOWHERE
    if time_ms == _EARLIEST:
        return first, _NOWHERE
    with call.context.dispatcher.broker.backing.log.reading(place.topic, number) as follower:
        if time_ms == _NEWEST:
            newest_us = follower.last_time()
            return (_NOWHERE, _NOWHERE) if newest_us is None or first == end else (end - 1, newest_us // 1000)
        if not 0 <= time_ms <= _MOST_MS:
            return _NOWHERE, _NOWHERE
        offset = follower.offset_of(1000 * time_ms)
    return (offset, time_ms) if offset < end else (_NOWHERE, _NOWHERE)


def find_epoch_ends(call: Call) -> Reply:
    """Return the end of the only leader epoch: the partition's end."""
    topics = []
    for topic in call.request["topics"]:
        answers = []
        for wanted in topic["partitions"]:
            index = wanted["partition"]
            answer = {"partition": index, "error_code": ErrorCode.NONE, "leader_epoch": -1, "end_offset": -1}
            try:
                place = _find(call, topic["topic"], index, wanted["current_leader_epoch"])
                if wanted["leader_epoch"] >= LEADER_EPOCH:
                    answer |= {"leader_epoch": LEADER_EPOCH, "end_offset": find_bounds(call, place, index + 1)[1]}
            except HeadstreamError as error:
                answer["error_code"] = fault_of(error)
            answers.append(answer)
        topics.append({"topic": topic["topic"], "partitions": answers})
    return {"topics": topics}
