"""Encoding: converts bytes of a generation of Iggy clients to commands, and replies to bytes.

classic   CLASSIC in this module: the layouts that commands/ declares, which Headstream's client also uses
today     VSR in vsr/encoding.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from headstream.core.codec.buffer import BytesLike
from headstream.core.wire.codes import Code
from headstream.core.wire.command_classes import decode_command
from headstream.core.wire.commands.messages import PolledMessages, SendMessages
from headstream.core.wire.commands.offsets import StoreOffset
from headstream.core.wire.commands.sessions import Ping
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import status_of
from headstream.core.wire.statuses import Status


class Encoding:
    """The encoding of one generation."""

    topic_at = 0
    """The byte position of stream and topic in the payload of a request that appends."""

    def decode(self, code: int, payload: BytesLike) -> Command[Any]:
        """Decode the command of a request."""
        raise NotImplementedError

    def count_surplus(self, command: Command[Any], payload: BytesLike) -> int:
        """Return the number of bytes after the last field of a request, if known."""
        return 0

    def encode_reply(self, command: Command[Any], reply: Any) -> list[BytesLike]:
        """Encode the body of the response to a command, in pieces."""
        raise NotImplementedError

    def encode_polled(self, head: PolledMessages, chunks: Sequence[memoryview]) -> list[BytesLike]:
        """Encode the body of a poll response, in pieces; partition 0 if a group member does not own the partition."""
        raise NotImplementedError

    def status_of(self, code: int, error: BaseException, *, is_extended: bool) -> int:
        """Return the status for an error; see refusals.status_of()."""
        return status_of(error, is_extended=is_extended)


_UNANSWERED: Final = frozenset({SendMessages, Ping, StoreOffset})
"""Frequent commands whose reply is only a status."""

_AT_DECODING: Final = {Status.INVALID_HEADER_KEY, Status.INVALID_HEADER_VALUE, Status.EMPTY_MESSAGE_PAYLOAD}
"""Faults of a send that Iggy's server finds while decoding: TCP clients receive status 3, HTTP clients the fault's status."""


class ClassicEncoding(Encoding):
    """The encoding of servers before 0.5."""

    def decode(self, code: int, payload: BytesLike) -> Command[Any]:
        return decode_command(code, payload)

    def count_surplus(self, command: Command[Any], payload: BytesLike) -> int:
        return command.count_surplus(payload)

    def encode_reply(self, command: Command[Any], reply: Any) -> list[BytesLike]:
        return [] if type(command) in _UNANSWERED else [type(command).encode_reply(reply)]

    def encode_polled(self, head: PolledMessages, chunks: Sequence[memoryview]) -> list[BytesLike]:
        return [head.head(), *chunks]

    def status_of(self, code: int, error: BaseException, *, is_extended: bool) -> int:
        status = status_of(error, is_extended=is_extended)
        return int(Status.INVALID_COMMAND) if code == Code.SEND_MESSAGES and status in _AT_DECODING else status


CLASSIC: Final = ClassicEncoding()
