"""Produce: appends clients' record batches to partitions, exactly once for idempotent producers; assigns producer ids."""

from __future__ import annotations

from typing import Any, Final

from headstream.broker.accounts.permissions import Rights
from headstream.core.codec.batch.kafka.batches import HEAD_BYTES
from headstream.core.model.producers import BatchNumber, is_owned_by
from headstream.core.model.topology import MAX_BATCH_BYTES, Fsync
from headstream.errors import DecodeError, HeadstreamError, PartitionNotFoundError, PermissionDeniedError
from headstream.server.kafka.calls import Call, Reply
from headstream.server.kafka.handlers.compression import bound_decompressed
from headstream.server.kafka.handlers.record_batches import read_batch
from headstream.server.kafka.handlers.topic_names import find_place
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError, fault_of
from headstream.server.reporting.redaction import redact
from headstream.server.reporting.storage_errors import STORAGE_ERRORS

_ACKS: Final = (-1, 0, 1)
_NO_ID: Final = -1
_BIG_BYTES: Final = 128 << 10
"""Requests from this size on run on a thread, because most of the work releases the GIL."""
_UNCHARGED_BYTES: Final = 1 << 20
"""Decompressed size from which batches are handled on a thread and reserve memory of the budget, which can take time."""
_ATTRIBUTES_AT: Final = 22
_CODEC: Final = 7


def is_big(call: Call) -> bool:
    """Return whether to handle a request on a thread, because it is long, compressed, or waits for the disk."""
    places = call.context.dispatcher.lookup
    size = 0
    for topic in call.request["topic_data"]:
        for partition in topic["partition_data"]:
            records = partition["records"]
            if records is not None and len(records) >= HEAD_BYTES:
                size += len(records) * (4 if records[_ATTRIBUTES_AT] & _CODEC else 1)
    if size >= _BIG_BYTES or decompressed_bytes(call) >= _UNCHARGED_BYTES:
        return True
    return places.has_synced_topics() and _waits_for_disk(call)


def decompressed_bytes(call: Call) -> int:
    """Return the maximum size of a request's largest compressed batch; batches are decompressed one at a time."""
    size_bytes = 0
    for topic in call.request["topic_data"]:
        for partition in topic["partition_data"]:
            records = partition["records"]
            if records is not None and len(records) >= HEAD_BYTES:
                codec, packed = records[_ATTRIBUTES_AT] & _CODEC, records[HEAD_BYTES:]
                size_bytes = max(size_bytes, bound_decompressed(codec, packed, MAX_BATCH_BYTES))
    return size_bytes


def _waits_for_disk(call: Call) -> bool:
    for topic in call.request["topic_data"]:
        try:
            if find_place(call, topic["name"], Rights.send).topic.fsync is Fsync.ALWAYS:
                return True
        except HeadstreamError:
            continue  # rejecting it is fast
    return False


def produce(call: Call) -> Reply:
    """Append a client's batches; each partition succeeds or fails separately."""
    request = call.request
    responses = []
    for topic in request["topic_data"]:
        name = topic["name"]
        answers = [_append(call, name, partition) for partition in topic["partition_data"]]
        responses.append({"name": name, "partition_responses": answers})
    if request["acks"] == 0:
        return None
    return {"responses": responses}


def _append(call: Call, name: str, partition: dict[str, Any]) -> dict[str, Any]:
    index: int = partition["index"]
    try:
        if call.request["acks"] not in _ACKS:
            raise ProtocolError(ErrorCode.INVALID_REQUIRED_ACKS, "acks must be -1, 0 or 1")
        if call.request["transactional_id"] is not None:
            raise ProtocolError(ErrorCode.INVALID_REQUEST, "transactions are not supported")
        offset, start = _store(call, name, index, partition["records"])
    except HeadstreamError as error:
        log = call.context.dispatcher.broker.backing.log
        return {"index": index, "error_code": _refused(error), "base_offset": -1, "error_message": redact(error, log).what}
    return {"index": index, "error_code": ErrorCode.NONE, "base_offset": offset, "log_start_offset": start}


def _refused(error: HeadstreamError) -> ErrorCode:
    fault = fault_of(error)
    STORAGE_ERRORS.log_once(error, fault)
    return fault


def _store(call: Call, name: str, index: int, records: memoryview | None) -> tuple[int, int]:
    """Append a batch; return the offset of its first message and the partition's log start offset."""
    server = call.context.dispatcher
    place = find_place(call, name, Rights.send)
    if not 0 <= index < place.topic.partitions:
        raise PartitionNotFoundError(f"the topic {name!r} has no partition {index}")
    batch = read_batch(records, place.topic.options.kafka_headers or "headstream")
    messages, topic = server.broker.messages, place.topic.name
    start = server.broker.backing.log.start_offset(place.topic, index + 1)
    try:
        if batch.producer_id == _NO_ID:
            return messages.send(topic, index + 1, batch.messages), start
        if not is_owned_by(batch.producer_id, call.session.user_id):
            raise ProtocolError(ErrorCode.INVALID_PRODUCER_EPOCH, "the producer id belongs to another user")
        number = BatchNumber(batch.producer_id, batch.epoch, batch.sequence)
        return messages.append(topic, index + 1, batch.messages, number).offset, start
    except DecodeError as error:  # an invalid message, not damage in transit, after which clients would retry
        raise ProtocolError(ErrorCode.INVALID_RECORD, str(error)) from None


def init_producer(call: Call) -> Reply:
    """Return a new producer id; each partition records the last batches that were appended with the id."""
    if call.request["transactional_id"] is not None:
        return {"error_code": ErrorCode.INVALID_REQUEST, "producer_id": -1, "producer_epoch": -1}
    try:
        call.rights.send_somewhere()
    except PermissionDeniedError:
        return {"error_code": ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "producer_id": -1, "producer_epoch": -1}
    producer_id, epoch = call.context.dispatcher.broker.messages.new_producer(call.session.user_id)
    return {"producer_id": producer_id, "producer_epoch": epoch}
