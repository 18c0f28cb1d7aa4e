"""Clients that mean a server harm, or do not know better: a program of its own, so that they cost the well-behaved nothing else.

    python -m tests.support.server.hostile TCP HTTP QUIC SECONDS [KIND ...]

The numbers are ports of 127.0.0.1; all kinds run where none is named; the last line is how often each came round.

The users mallory/mallory (who may do everything in the stream `mad`, and nothing else) and that stream's topic `big` are there.
"""

from __future__ import annotations

import functools
import http.client
import json
import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.codes import EXTENSION_CONTEXT, Code
from headstream.core.wire.commands import messages, sessions, streams, system, topics
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.extensions.epochs import CommitEpoch, StageBatch, StagedBatch
from headstream.core.wire.extensions.messages import ListStates, SetState
from headstream.core.wire.frames import encode_request, request_head
from headstream.core.wire.records import Command
from tests.support.server.peers import RefusedError, TcpPeer
from tests.support.server.vsr_peer import VsrPeer, batch, frame, login_body, request_frame, send_body

HOST = "127.0.0.1"
BIG_BYTES = 1 << 20
"""So long is a message of `mad/big`."""
PAUSE_S = 0.02
"""Between two rounds of one kind: the load is what a server has to stand, not a contest for the processor."""
HELD = 50
"""Connections that one kind holds open."""
_TIMEOUT_S = 10.0
_RANDOM = random.Random(15)


class Ports:
    """Where the server listens."""

    def __init__(self, tcp: int, http: int, quic: int) -> None:
        self.tcp, self.http, self.quic = tcp, http, quic


def connect(ports: Ports, *, is_logged_in: bool = True) -> TcpPeer:
    peer = TcpPeer((HOST, ports.tcp), _TIMEOUT_S)
    if is_logged_in:
        try:
            peer.ask(sessions.Login("mallory", "mallory", "1.0.0", EXTENSION_CONTEXT))
        except BaseException:
            peer.close()
            raise
    return peer


def ask(peer: TcpPeer, *commands: Command[Any]) -> None:
    """Ask for things, whatever the answers are."""
    for command in commands:
        with suppress(RefusedError):
            peer.ask(command)


def unauthenticated_clients(ports: Ports) -> None:
    """Send bytes at random, and requests without a login."""
    with connect(ports, is_logged_in=False) as peer:
        ask(peer, system.GetStats(), streams.ListStreams())
        peer.socket.sendall(_RANDOM.randbytes(_RANDOM.randrange(1, 4000)))


def wrong_logins(ports: Ports) -> None:
    """Log in with wrong passwords, over TCP and HTTP."""
    with connect(ports, is_logged_in=False) as peer:
        ask(peer, sessions.Login("iggy", f"wrong\r\n{_RANDOM.random()}"))
    with http_connection(ports) as connection:
        body = json.dumps({"username": "iggy", "password": "wrong"})
        connection.request("POST", "/users/login", body, {"content-type": "application/json"})
        connection.getresponse().read()


def http_connection(ports: Ports) -> ClosingHttp:
    return ClosingHttp(HOST, ports.http, timeout=_TIMEOUT_S)


class ClosingHttp(http.client.HTTPConnection):
    """A connection that a `with` closes."""

    def __enter__(self) -> ClosingHttp:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def partial_frames(ports: Ports) -> None:
    """Hold beginnings of requests: of unauthenticated clients, and long ones of a user without rights."""
    with ExitStack() as stack:
        for number in range(HELD):
            peer = stack.enter_context(connect(ports, is_logged_in=number % 5 == 0))
            peer.socket.settimeout(0.2)
            with suppress(TimeoutError):
                size = 60 << 20 if number % 5 == 0 else 3000
                peer.socket.sendall(request_head(Code.SEND_MESSAGES, size) + bytes(min(size // 2, 4 << 20)))
        time.sleep(1)


def today_frames(ports: Ports) -> None:
    """Hold beginnings of frames of protocol 0.11, lie about sizes, send wrong checksums, and write without a login."""
    address = (HOST, ports.tcp)
    with ExitStack() as stack:
        for number in range(HELD):
            peer = stack.enter_context(VsrPeer(address, "mallory" if number % 5 == 0 else "", "mallory"))
            peer.socket.settimeout(0.2)
            size = 60 << 20 if number % 5 == 0 else 3000
            data = bytearray(request_frame(160, bytes(min(size // 2, 1 << 20)), session=peer.session, number=1))
            data[48:52] = size.to_bytes(4, "little")
            with suppress(OSError):
                peer.socket.sendall(data[: 100 if number % 2 else len(data)])
        with suppress(ConnectionError):
            peer = stack.enter_context(VsrPeer(address, "mallory", "mallory"))
            wrong = bytearray(batch([frame(b"mad")]))
            wrong[_RANDOM.randrange(len(wrong))] ^= 0xFF
            peer.ask(160, send_body("mad", "big", bytes(wrong)))
        with suppress(ConnectionError):
            peer = stack.enter_context(VsrPeer(address, ""))
            peer.ask(128, b"\x03mad")
            peer.ask(1, login_body("mallory", "wrong"))
            peer.ask(1, login_body("mallory", "mallory", 12 << 10))
            peer.read(1)
        time.sleep(1)


def half_bodies(ports: Ports) -> None:
    """Hold beginnings of bodies over HTTP."""
    head = b"POST /users/login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2000000\r\n\r\n"
    with ExitStack() as stack:
        for _ in range(HELD):
            sock = stack.enter_context(socket.create_connection((HOST, ports.http), _TIMEOUT_S))
            with suppress(OSError):
                sock.sendall(head + bytes(100_000))
        time.sleep(1)


def slow_readers(ports: Ports) -> None:
    """Ask for a lot, and read nothing."""
    poll = messages.PollMessages(ConsumerRef(ConsumerKind.CONSUMER, 1), "mad", "big", 1, PollingKind.OFFSET, 0, 100, False)
    with ExitStack() as stack:
        for _ in range(HELD):
            peer = stack.enter_context(connect(ports))
            peer.socket.sendall(encode_request(poll.code, poll.encode()) * 20)
        time.sleep(2)


def mad_states(ports: Ports) -> None:
    """Change states for long reasons, of offsets that are not there."""
    with connect(ports) as peer:
        offsets = tuple(_RANDOM.randrange(1 << _RANDOM.choice((4, 63))) for _ in range(100))
        ask(
            peer,
            SetState("mad", "big", 1, offsets, _RANDOM.randrange(256), "x" * _RANDOM.choice((10, 100_000)), "nobody"),
            SetState("mad", "big", 1, (0, 1), 10, "poisoned"),
            ListStates("mad", "big", 1),
        )


def broken_epochs(ports: Ports) -> None:
    """Stage and commit what cannot be committed."""
    sent = encode_sent([Message(payload=b"x" * 100)])
    with connect(ports) as peer:
        epoch = _RANDOM.randrange(1, 1 << 62)
        ask(
            peer,
            StageBatch("mad-writer", epoch, "part", 0, "mad", "big", 1, True, sent),
            CommitEpoch("mad-writer", epoch, (StagedBatch("part", "mad/big", 9999, 100, 1, 0),)),
            CommitEpoch("../../etc", 1, (StagedBatch("../x", "shop/orders", 1, 1 << 40, 1 << 31, 0),)),
        )


@functools.cache
def access_token(ports: Ports) -> str:
    """Return a token of mallory's, valid for an hour: a login for each survey would be another kind of load."""
    with http_connection(ports) as connection:
        body = json.dumps({"username": "mallory", "password": "mallory"})
        connection.request("POST", "/users/login", body, {"content-type": "application/json"})
        return str(json.load(connection.getresponse())["access_token"]["token"])


def surveys(ports: Ports) -> None:
    """Have the server count everything, by many connections at once."""
    with ExitStack() as stack:
        peers = [stack.enter_context(connect(ports)) for _ in range(10)]
        for peer in peers:
            for command in (system.GetStats(), streams.ListStreams(), topics.ListTopics("mad")):
                peer.socket.sendall(encode_request(command.code, command.encode()))
        for peer in peers:
            for _ in range(3):
                peer.receive()
    with http_connection(ports) as connection:
        for path in ("/metrics", "/stats"):
            connection.request("GET", path, headers={"authorization": f"Bearer {access_token(ports)}"})
            connection.getresponse().read()


def mad_sends(ports: Ports) -> None:
    """Send to where there is no right to, and messages that are none."""
    sent = encode_sent([Message(payload=b"x")])
    with connect(ports) as peer:
        ask(peer, messages.SendMessages("shop", "orders", Partitioning.partition(1), sent))
        junk = messages.SendMessages("mad", "big", Partitioning.partition(1), memoryview(_RANDOM.randbytes(500)))
        peer.exchange(encode_request(junk.code, junk.encode()))


def datagrams(ports: Ports) -> None:
    """Send datagrams that are none of QUIC, and beginnings of connections without an end."""
    if not ports.quic:
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(20):
            sock.sendto(os.urandom(1200), (HOST, ports.quic))
            first = b"\xc0\0\0\0\x01\x08" + os.urandom(8) + b"\x08" + os.urandom(8) + b"\0\x44\x90" + os.urandom(1168)
            sock.sendto(first, (HOST, ports.quic))


KINDS: dict[str, Callable[[Ports], None]] = {
    kind.__name__: kind
    for kind in (
        unauthenticated_clients,
        wrong_logins,
        partial_frames,
        half_bodies,
        slow_readers,
        mad_states,
        broken_epochs,
        surveys,
        mad_sends,
        datagrams,
        today_frames,
    )
}


def main(tcp: int, http: int, quic: int, seconds: float, *names: str) -> None:
    ports, rounds, until_s = Ports(tcp, http, quic), Counter[str](), time.monotonic() + seconds
    failures = Counter[str]()

    def run(name: str, kind: Callable[[Ports], None]) -> None:
        while time.monotonic() < until_s:
            try:
                kind(ports)
            except (OSError, RefusedError, http_client_error) as error:  # the server defends itself
                failures[f"{name}: {type(error).__name__}"] += 1
            rounds[name] += 1
            time.sleep(PAUSE_S)

    threads = [threading.Thread(target=run, args=(name, KINDS[name]), daemon=True) for name in names or KINDS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds + 60)
    print(json.dumps({"rounds": rounds, "ended": failures}))  # noqa: T201 - what this program is for


http_client_error = http.client.HTTPException

if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]), *sys.argv[5:])
