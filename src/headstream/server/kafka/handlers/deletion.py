"""DeleteRecords: deletes the messages of partitions before an offset, and answers where each one begins now."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.permissions import Rights
from headstream.errors import HeadstreamError, PartitionNotFoundError
from headstream.log.upkeep.prefix_removal import remove_before
from headstream.server.kafka.calls import Call, Reply
from headstream.server.kafka.handlers.fetch import find_bounds
from headstream.server.kafka.handlers.topic_names import find_place
from headstream.server.kafka.protocol.error_codes import ErrorCode, fault_of
from headstream.server.reporting.storage_errors import STORAGE_ERRORS

_END: Final = -1
"""The offset that stands for the partition's end."""


def delete_records(call: Call) -> Reply:
    """Remove messages; each partition succeeds or fails on its own."""
    return {
        "topics": [
            {"name": topic["name"], "partitions": [_delete(call, topic["name"], each) for each in topic["partitions"]]}
            for topic in call.request["topics"]
        ]
    }


def _delete(call: Call, name: str, wanted: dict[str, Any]) -> dict[str, Any]:
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
