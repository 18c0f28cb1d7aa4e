"""VSR: commands and replies of protocol 0.11. The payload of a request is its complete frame, which contains the operation."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

from headstream.core.codec.batch.iggy_batches import BatchFault, decode_batch, encode_batches
from headstream.core.codec.buffer import BytesLike, Reader, Writer
from headstream.core.model.partitioning import Partitioning, PartitioningKind
from headstream.core.wire.codes import Code
from headstream.core.wire.command_classes import COMMANDS
from headstream.core.wire.commands import messages
from headstream.core.wire.commands.messages import PolledMessages, PollMessages, SendMessages, pull_partitioning
from headstream.core.wire.encodings import Encoding
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.core.wire.shapes import IDENTIFIER
from headstream.core.wire.statuses import Status
from headstream.core.wire.vsr.frames import HEADER_BYTES
from headstream.core.wire.vsr.layouts import pull_request, push_reply
from headstream.core.wire.vsr.logins import decode_login
from headstream.core.wire.vsr.operations import RESULT_CODES
from headstream.errors import DecodeError

_NOT_OWNED: Final = 0xFFFF_FFFF
"""The partition of the reply if a group member does not own the polled partition; the client then requests its assignment."""

_POLL_NUMBERS: Final = struct.Struct("<BIBQIB")
"""Flag and partition, kind, value, count and auto_commit."""

_FAULTS: Final = {
    BatchFault.LAYOUT: (Status.INVALID_COMMAND, "the batch of a send request does not consist of complete frames"),
    BatchFault.RESERVED: (Status.INVALID_RESERVED_FIELD, "a reserved field of a batch is not 0"),
    BatchFault.BATCH_CHECKSUM: (Status.INVALID_BATCH_CHECKSUM, "a batch does not match its checksum"),
    BatchFault.MESSAGE_CHECKSUM: (Status.INVALID_MESSAGE_CHECKSUM, "a message does not match its checksum"),
    BatchFault.KEY_KIND: (Status.INVALID_HEADER_KIND, "a header key is not a string"),
    BatchFault.HEADERS: (Status.INVALID_HEADER_KEY, "a message's headers are cut short"),
    BatchFault.EMPTY_PAYLOAD: (Status.EMPTY_MESSAGE_PAYLOAD, "a message has no payload"),
}


class VsrEncoding(Encoding):
    """The encoding of protocol 0.11. Polls wait `hold_ms` for messages, because the protocol has no command that waits."""

    topic_at = HEADER_BYTES + 4

    def __init__(self, hold_ms: int = 0) -> None:
        self._hold_ms = hold_ms

    def decode(self, code: int, payload: BytesLike) -> Command[Any]:
        """Decode the command of a complete frame; see Encoding.decode()."""
        reader = Reader(payload, HEADER_BYTES)
        if code == Code.LOGIN:
            return decode_login(reader)
        if code == Code.SEND_MESSAGES:
            return _decode_send(reader)
        if code == Code.POLL_MESSAGES:
            return _decode_poll(bytes(payload[HEADER_BYTES:]), self._hold_ms)
        kind = COMMANDS.get(code)
        if kind is None:
            raise refusal(Status.FEATURE_UNAVAILABLE, "the operation or read does not exist")
        return pull_request(kind, reader)

    def encode_reply(self, command: Command[Any], reply: Any) -> list[BytesLike]:
        """Encode the body of a reply, with an error count if the operation has such a count."""
        writer = Writer()
        if type(command).code in RESULT_CODES:
            writer.push_u32(0)
        push_reply(writer, type(command), reply)
        return [writer.to_bytes()] if len(writer) else []

    def encode_polled(self, head: PolledMessages, chunks: Sequence[memoryview]) -> list[BytesLike]:
        """Encode the body of the reply to a poll: the header, and the messages as batches."""
        partition = head.partition - 1 if head.partition else _NOT_OWNED
        shown = PolledMessages(partition, head.current_offset, head.count, b"").head()
        if not head.count:
            return [shown]
        stored = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        return [shown, encode_batches(stored, head.count, partition)]


VSR: Final = VsrEncoding()


def _decode_poll(body: bytes, hold_ms: int) -> PollMessages:
    """Decode a poll: consumer | stream | topic | partition | kind u8 | value u64 | count u32 | auto_commit u8."""
    begin = messages.end_of_poll_targets(body)
    flag, number, code, value, count, auto_commit = Reader(body, begin).pull_struct(_POLL_NUMBERS, "a poll")
    kind = messages.POLLING_KINDS.get(code)
    if flag > 1 or kind is None:
        raise DecodeError("the partition flag or the kind of the start position of a poll is invalid", HEADER_BYTES + begin)
    partition = number + 1 if flag else 0
    return PollMessages(*messages.poll_targets(body[:begin]), partition, kind, value, count, auto_commit == 1, True, hold_ms)


def _decode_send(reader: Reader) -> SendMessages:
    """Decode a send: metadata_length u32 | stream | topic | partitioning | count u32 | batch."""
    end = reader.pull_u32("the metadata length") + reader.at
    stream, topic = IDENTIFIER.pull(reader, "stream"), IDENTIFIER.pull(reader, "topic")
    partitioning = pull_partitioning(reader)
    reader.pull_u32("the message count")
    if reader.at != end:
        raise DecodeError("the metadata length of a send is wrong", reader.at)
    if partitioning.kind is PartitioningKind.PARTITION_ID:
        number = int.from_bytes(partitioning.value, "little") + 1
        partitioning = Partitioning(PartitioningKind.PARTITION_ID, min(number, 0xFFFF_FFFF).to_bytes(4, "little"))
    found = decode_batch(reader.pull_view(reader.remaining, "a send's batch"))
    if isinstance(found, int):
        status, what = _FAULTS[found]
        error = DecodeError(what, HEADER_BYTES)
        error.status = status
        raise error
    return SendMessages(stream, topic, partitioning, found, is_from_zero=True)
