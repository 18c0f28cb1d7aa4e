"""A client of the fast path for tests, or of the general path only, and the requests that it makes."""

from __future__ import annotations

import struct
from types import ModuleType
from typing import Any

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.model.producers import producer_id_of
from headstream.core.wire.commands.messages import PollMessages, SendMessages
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.commands.streams import CreateStream
from headstream.core.wire.commands.topics import Compression, CreateTopic
from headstream.core.wire.extensions.producers import AppendedBatch, AppendNumbered
from headstream.core.wire.frames import request_head
from headstream.core.wire.records import Command
from headstream.server.iggy.fast_path.traffic import Traffic
from headstream.server.iggy.requests.responder import Responder
from tests.support.server.servers import Peer, Server

READER = ConsumerRef(ConsumerKind.CONSUMER, 1)


class Client:
    """A logged in client by both ways, the long one alone if there is no module of the short one."""

    def __init__(self, peer: Peer, ways: ModuleType | None) -> None:
        self.peer = peer
        self.traffic = getattr(ways, "Traffic", Traffic)("tcp")  # compiled code does not show what it imports
        self.answers = Responder(peer.dispatcher, peer.session)
        self.short = None if ways is None else ways.SmallRequests(peer.dispatcher, peer.session, self.traffic)

    def is_short(self, command: Command[Any]) -> bool:
        """Ask by the fast path alone, and return whether there was an answer."""
        frame = frame_of(command)
        assert self.short is not None
        return bool(self.short.answer(memoryview(frame), len(frame))[0])

    def answers_of(self, frame: bytes) -> bytes:
        """Return the response of the general path to one frame."""
        return b"".join(self.answers.find(int.from_bytes(frame[4:8], "little"), memoryview(frame[8:]))[1])

    def ask(self, *commands: Command[Any]) -> bytes:
        """Return the responses to what is sent together."""
        frames, responses = b"".join(map(frame_of, commands)), b""
        while frames:
            at = 0
            if self.short is not None:
                at, response = self.short.answer(memoryview(frames), len(frames))
                responses += response
            if not at:
                at = 4 + int.from_bytes(frames[:4], "little")
                code = int.from_bytes(frames[4:8], "little")
                responses += b"".join(self.answers.find(code, memoryview(frames[8:at]))[1])
            frames = frames[at:]
        return responses


def frame_of(command: Command[Any]) -> bytes:
    payload = command.encode()
    return request_head(command.code, len(payload)) + payload


def send(*payloads: bytes, topic: str | int = "orders", to: Partitioning | None = None, first_id: int = 1) -> SendMessages:
    sent = encode_sent([Message(payload=payload, id=first_id + number) for number, payload in enumerate(payloads)])
    return SendMessages("shop", topic, Partitioning.partition(1) if to is None else to, sent)


def numbered(
    *payloads: bytes, sequence: int, epoch: int = 0, producer: int = 1, user: int = 1, partition: int = 1, first_id: int = 1
) -> AppendNumbered:
    sent = encode_sent([Message(payload=payload, id=first_id + number) for number, payload in enumerate(payloads)])
    return AppendNumbered("shop", "orders", partition, producer_id_of(producer, user), epoch, sequence, sent)


def appended(response: bytes) -> AppendedBatch:
    status, size = struct.unpack_from("<II", response)
    assert not status
    assert size == len(response) - 8
    return AppendNumbered.decode_reply(response[8:])


def poll(offset: int, count: int = 1, *, partition: int = 1, topic: str | int = "orders", commits: bool = False) -> PollMessages:
    return PollMessages(READER, "shop", topic, partition, PollingKind.OFFSET, offset, count, commits)


def payloads_of(response: bytes) -> list[bytes | None]:
    status, size = struct.unpack_from("<II", response)
    assert not status
    assert size == len(response) - 8
    return [message.payload for message in decode_polled(PollMessages.decode_reply(response[8:]).messages)]


def with_topic(server: Server) -> Peer:
    root = server.root()
    root.ask(CreateStream(0, "shop"))
    root.ask(CreateTopic("shop", 0, 3, Compression.NONE, 0, 0, 0, "orders"))
    return root
