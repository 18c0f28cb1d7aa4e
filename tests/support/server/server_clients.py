"""Clients of a history: each a socket that does not block, with what is to be sent, what is expected, and what has come."""

from __future__ import annotations

import random
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from headstream.broker.settings import DEFAULT_PASSWORD, DEFAULT_USERNAME
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.codes import EXTENSION_CONTEXT
from headstream.core.wire.commands import messages, offsets, sessions, topics, users
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions
from headstream.core.wire.extensions.messages import WaitMessages
from headstream.core.wire.frames import encode_request
from headstream.core.wire.records import Command
from headstream.core.wire.statuses import Status
from tests.support.server.server_history import BRIEF, KEPT, PARTITIONS, STREAM, History, Sent

LIMITED = ("limited", "secret")
ROOT = (DEFAULT_USERNAME, DEFAULT_PASSWORD)
CONSUMER: Final = offsets.ConsumerRef(ConsumerKind.CONSUMER, 1)
_LONG_MS: Final = 600_000
_MANY: Final = 100
_SMALL_BYTES: Final = 8 << 10
_RESET: Final = struct.pack("ii", 1, 0)
_HEAD: Final = struct.Struct("<II")


def create_brief() -> topics.CreateTopic:
    """Return the command that makes the topic that is deleted again."""
    return topics.CreateTopic(STREAM, 0, PARTITIONS, topics.Compression.NONE, topics.NEVER, topics.SERVER_DEFAULT, 0, BRIEF)


@dataclass(eq=False)
class Asked:
    """A request whose response has not come."""

    name: str
    ends_at: int
    check: Callable[[int, bytes], None]
    sent: Sent | None = None
    waits_for: tuple[str, int, int] | None = None


class Client:
    """A client that does anything.

    Args:
        history: What it is a part of.
        number: Which of its clients it is.
        chance: What it does.
        address: The server's.
    """

    def __init__(self, history: History, number: int, chance: random.Random, address: tuple[str, int]) -> None:
        self.history = history
        self.number = number
        self.chance = chance
        self.socket = socket.socket()
        if chance.random() < 0.5:  # before it connects: what it does not take soon stays with the server
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_BYTES)
        self.socket.connect(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.asked: deque[Asked] = deque()
        self.is_leaving = False
        self.is_gone = False
        self._user: tuple[str, str] | None = None
        self._is_extended = False
        self._outgoing = bytearray()
        self._incoming = bytearray()
        self._sent_bytes = 0
        self._deaf = 0
        self._nexts: dict[tuple[str, int], int] = {}
        self._versions_made = 1
        self.log_in()

    # -- what it asks -------------------------------------------------------------------------------------------

    def ask(self, command: Command[Any], check: Callable[[int, bytes], None], **more: Any) -> None:
        """Have a request sent, sooner or later."""
        self._outgoing += encode_request(command.code, command.encode())
        self.asked.append(Asked(type(command).__name__, self._sent_bytes + len(self._outgoing), check, **more))

    def log_in(self) -> None:
        """Be somebody, who may be allowed more or less."""
        self._user = self.chance.choice([ROOT, ROOT, LIMITED])
        self._is_extended = self.chance.random() < 0.7
        self.ask(sessions.Login(*self._user, "0.6.210", EXTENSION_CONTEXT if self._is_extended else ""), expect(0))

    def log_out(self) -> None:
        """Be nobody."""
        self.ask(sessions.Logout(), expect(self._right()))
        self._user = None

    def ping(self) -> None:
        """Say that it is alive."""
        self.ask(sessions.Ping(), expect(0))

    def list_topics(self) -> None:
        """Ask for what a worker answers."""
        self.ask(topics.ListTopics(STREAM), expect(self._right()))

    def send(self, size: int = 0) -> None:
        """Send messages; a few small ones, or so many bytes."""
        topic = self._topic()
        chance = self.chance
        way = chance.randrange(4)
        partitioning = Partitioning.partition(chance.randint(1, PARTITIONS))
        if way == 0:
            partitioning = Partitioning.balanced() if chance.random() < 0.5 else Partitioning.key(b"%d" % chance.randrange(9))
        sizes = [size // 4] * 4 if size else [chance.randint(20, 200) for _ in range(chance.choice([1, 1, 2, 10]))]
        sent, command = self.history.send(self.number, topic, partitioning, sizes, is_rightful=self._user == ROOT)
        statuses = self._statuses()
        self.ask(command, lambda status, body: self.history.check_sent(sent, status, statuses()), sent=sent)

    def poll(self, count: int = 0) -> None:
        """Poll a few messages, or so many, from where some are known to be, or none yet."""
        topic, partition = self._topic(), self.chance.randint(1, PARTITIONS)
        end = self.history.end_of(topic, partition)
        following = self._nexts.get((topic, partition), 0)
        offset = self.chance.choice([0, max(end - 3, 0), end, self.chance.randint(0, end), following, following, following])
        offset = 0 if count > _MANY else offset
        count = count or self.chance.choice([1, 1, 2, 10])
        self._nexts[topic, partition] = offset + count
        command = messages.PollMessages(CONSUMER, STREAM, topic, partition, PollingKind.OFFSET, offset, count, False)
        self.ask(command, self.history.expect_polled(topic, partition, offset, count, self._statuses()))

    def wait(self) -> None:
        """Wait for messages, for a moment or for ever; only Headstream's own clients can."""
        if not self._is_extended or self._user is None:
            return
        topic, partition = self._topic(), self.chance.randint(1, PARTITIONS)
        end = self.history.end_of(topic, partition)
        offset = max(end + self.chance.choice([-1, 0, 0, 0, 3]), 0)
        timeout_ms = self.chance.choice([1, 20, _LONG_MS, _LONG_MS])
        statuses, mark = self._statuses(), self.history.versions[topic].mark

        def check(status: int, body: bytes) -> None:
            versions = self.history.versions[topic].since(mark)
            if None in versions and status in (Status.TOPIC_NAME_NOT_FOUND, Status.TOPIC_ID_NOT_FOUND):
                return
            assert status in statuses(), status
            if status:
                return
            is_woken = WaitMessages.decode_reply(body).is_woken
            self.history.counts[f"waits answered {is_woken}"] += 1
            if len(versions) == 1:
                assert is_woken or offset >= end, f"{topic}/{partition} has {end} messages, but none at {offset}"
                # An offset behind the end is not a valid position: the wait ends at once, and the next poll reports the error.
                assert not is_woken or offset > end or self.history.could_reach(topic, partition, offset)
            assert is_woken or self.asked or timeout_ms < _LONG_MS, "a wait ended with nothing"

        asked = (topic, partition, offset) if timeout_ms == _LONG_MS else None
        self.ask(WaitMessages(STREAM, topic, {partition: offset}, timeout_ms), check, waits_for=asked)

    @property
    def is_busy(self) -> bool:
        """Whether something is still to be sent to it or by it."""
        return not self.is_gone and bool(self.asked or self._outgoing or self.is_leaving)

    @property
    def rests(self) -> bool:
        """Whether it waits for what nobody has sent."""
        if len(self.asked) != 1 or self._outgoing or (waited := self.asked[0].waits_for) is None:
            return False
        topic, partition, offset = waited
        return topic == BRIEF or self._user == LIMITED or self.history.end_of(topic, partition) <= offset

    # -- what goes over its socket ------------------------------------------------------------------------------

    def push(self, most: int | None = None) -> bool:
        """Send at most so many bytes of what is to be sent; return whether some have gone."""
        if not self._outgoing or self.is_leaving:
            return False
        try:
            count = self.socket.send(self._outgoing[: most or 1 << 20])
        except BlockingIOError:
            return False
        del self._outgoing[:count]
        self._sent_bytes += count
        return count > 0

    def pull(self, most: int = 1 << 20) -> bool:
        """Take what has come; return whether something has."""
        if self.is_gone:
            return False
        try:
            received = self.socket.recv(most)
        except BlockingIOError:
            return False
        if not received:
            assert self.is_leaving, f"the server has closed client {self.number}, {len(self.asked)} requests open"
            assert not self._incoming, "half a response"
            left = [asked.name for asked in self.asked]
            assert left in ([], ["WaitMessages"]), f"client {self.number} left, and was not answered {left}"
            self._be_gone()
            return True
        self._incoming += received
        while len(self._incoming) >= 8:
            status, length = _HEAD.unpack_from(self._incoming)
            if len(self._incoming) < 8 + length:
                break
            assert self.asked, f"a response to nothing: status {status}, {length} bytes"
            body = bytes(self._incoming[8 : 8 + length])
            del self._incoming[: 8 + length]
            asked = self.asked.popleft()
            try:
                asked.check(status, body)
            except Exception as error:
                error.add_note(f"{asked.name} of client {self.number}: status {status}, {body[:80]!r}")
                raise
            self.history.counts["responses"] += 1
        return True

    def look(self, timeout_s: float) -> None:
        """Give the server time to answer, if something is asked for."""
        if self.asked:
            select.select([self.socket], [], [], timeout_s)

    def leave(self, *, is_rude: bool) -> None:
        """Go: by FIN, and take what is answered, or by RST."""
        for asked in self.asked:
            if asked.ends_at > self._sent_bytes and asked.sent is not None:
                asked.sent.is_refused = True  # it has never come to the server
        self.asked = deque(asked for asked in self.asked if asked.ends_at <= self._sent_bytes)
        self._outgoing.clear()
        self.is_leaving = True
        self.history.counts["left by RST" if is_rude else "left by FIN"] += 1
        if is_rude:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self._be_gone()
        else:
            self.socket.shutdown(socket.SHUT_WR)

    def _be_gone(self) -> None:
        self.is_gone = True
        self.socket.close()

    # -- what it does -------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Do something."""
        chance = self.chance
        if self.is_leaving:
            self.pull()
            return
        if self._user is None and chance.random() < 0.3:
            self.log_in()
        doing = chance.random()
        if len(self._outgoing) < 2 << 20 and len(self.asked) < 300:
            if doing < 0.55:  # what makes a quiet connection: one small request, and its answer
                chance.choice([self.ping, self.send, self.send, self.poll, self.poll])()
                if chance.random() < 0.9:
                    self.push()
            elif doing < 0.63:
                for _ in range(chance.choice([5, 20, 100])):
                    chance.choice([self.ping, self.send, self.poll, self.poll])()
            elif doing < 0.67:
                self.send(chance.choice([17_000, 60_000, 60_000, 300_000]))
            elif doing < 0.75:
                for _ in range(chance.choice([1, 3])):
                    self.poll(chance.choice([90, 1000, 100_000]))
                self._deaf = chance.choice([0, 3])
            elif doing < 0.80:
                self.wait()
            elif doing < 0.82:
                self.list_topics()
            elif doing < 0.84:
                self.log_out() if self._user is not None else self.log_in()
                if chance.random() < 0.5:
                    self.log_in()
            elif doing < 0.86:
                self._deaf = chance.randint(10, 60)
            elif doing < 0.87:
                self.leave(is_rude=chance.random() < 0.5)
                return
        if doing > 0.9:
            self.push(chance.choice([1, 3, 7, 11, 100, 5000]))
        elif doing > 0.3:
            self.push()
        self._deaf -= 1
        if self._deaf < 0:
            self.look(chance.choice([0, 0.002]))
            self.pull(chance.choice([1 << 20, 1 << 20, 100]))

    def _topic(self) -> str:
        return KEPT if self._user == LIMITED or self.chance.random() < 0.7 else BRIEF

    def _right(self) -> int:
        return Status.UNAUTHENTICATED if self._user is None else 0

    def _statuses(self) -> Callable[[], set[int]]:
        """Return what says which statuses a request that needs a right may have, once it is answered."""
        if self._user is None:
            return lambda: {Status.UNAUTHENTICATED}
        if self._user == ROOT:
            return lambda: {0}
        allowed = self.history.is_allowed
        mark = allowed.mark
        return lambda: {0 if right else Status.UNAUTHORIZED for right in allowed.since(mark)}


class Administrator(Client):
    """Changes what others rely on, one thing after the other, and makes small requests like everybody."""

    def log_in(self) -> None:
        self._user, self._is_extended = ROOT, True
        self.ask(sessions.Login(*ROOT, "0.6.210", EXTENSION_CONTEXT), expect(0))

    def act(self) -> None:
        chance = self.chance
        if not self.asked:
            doing = chance.random()
            if doing < 0.8:
                chance.choice([self.ping, self.send, self.poll])()
            elif doing < 0.9:
                self._change_rights()
            else:
                self._change_topic()
        self.push()
        self.look(0.001)
        self.pull()

    def _change_rights(self) -> None:
        allowed = self.history.is_allowed
        (right,) = allowed.since(allowed.mark)
        allowed.begin(not right)
        permissions = Permissions(
            GlobalPermissions(read_topics=True, read_streams=True, poll_messages=not right, send_messages=not right)
        )
        self._then(users.UpdatePermissions(LIMITED[0], permissions), allowed.settle)

    def _change_topic(self) -> None:
        versions = self.history.versions[BRIEF]
        (version,) = versions.since(versions.mark)
        if version is None:
            self._versions_made += 1
            versions.begin(self._versions_made)
            self._then(create_brief(), versions.settle)
        else:
            versions.begin(None)
            self._then(topics.DeleteTopic(STREAM, BRIEF), versions.settle)

    def settle(self) -> None:
        """Have the topic there in the end."""
        versions = self.history.versions[BRIEF]
        if versions.since(versions.mark) == {None}:
            self._change_topic()

    def _then(self, command: Command[Any], done: Callable[[], None]) -> None:
        def check(status: int, body: bytes) -> None:
            assert status == 0
            done()

        self.history.counts[type(command).__name__] += 1
        self.ask(command, check)


def expect(wanted: int) -> Callable[[int, bytes], None]:
    """Return what checks that a response has a status."""

    def check(status: int, body: bytes) -> None:
        assert status == wanted, f"status {status}, not {wanted}"

    return check


def run_to_end(clients: list[Client], deadline_s: float = 30) -> None:
    """Have everything sent and answered; whoever waits for what nobody has sent says something else."""
    until = time.monotonic() + deadline_s
    while True:
        busy = [client for client in clients if client.is_busy]
        if not busy:
            return
        moved = [client.push() | client.pull() for client in busy]
        if any(moved):
            until = time.monotonic() + deadline_s
        elif all(client.rests for client in busy):
            for client in busy:
                client.ping()
        else:
            left = {client.number: [asked.name for asked in client.asked][:5] for client in busy}
            assert time.monotonic() < until, f"nothing comes any more, but is asked for: {left}"
            select.select([client.socket for client in busy], [], [], 0.01)
