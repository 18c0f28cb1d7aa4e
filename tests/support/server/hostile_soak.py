"""A well-behaved producer and consumer beside hostile clients: what they lose, and what they wait for."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import headstream as hs
from headstream.core.codec.binary import encode_sent
from headstream.core.wire.commands import messages, permissions, streams, topics, users
from tests.support.server.hostile import BIG_BYTES
from tests.support.server.peers import TcpPeer
from tests.support.server.server_process import ServerProcess

TOPIC = "shop/orders"
BUDGET = "256 MiB"
_PARTITIONS_A_TOPIC = 1000
_OTHER_MACHINE = ("nice", "-n", "10")
"""Hostile clients are on machines of their own, and compete for the server, not for its processors."""
_SEND_S = 0.01
_ARRIVAL_S = 60.0


@dataclass
class Phase:
    """What the well-behaved clients saw of a time.

    Args:
        name: What the others did meanwhile.

    Attributes:
        sends_s: How long sends took.
        arrivals_s: How long messages took from there to a consumer.
        echoes_s: How long a server of another process took that only echoes: what the machine's processors cost everybody.
        most_resident_bytes: The server's memory.
        rounds: How often each kind of hostile clients came round.
    """

    name: str
    sends_s: list[float] = field(default_factory=list)
    arrivals_s: list[float] = field(default_factory=list)
    echoes_s: list[float] = field(default_factory=list)
    rounds: dict[str, int] = field(default_factory=dict)
    most_resident_bytes: int = 0

    @staticmethod
    def percentile_ms(times_s: list[float], share: float) -> float:
        """Return a percentile, milliseconds."""
        ordered = sorted(times_s)
        return ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000


@dataclass
class Outcome:
    """What came of a soak."""

    quiet: Phase
    surveyed: Phase
    hostile: Phase
    sent: int
    received: list[int]
    resident_after_bytes: int

    @property
    def is_complete(self) -> bool:
        """Whether everything that was sent came once, in order."""
        return self.received == list(range(self.sent))


def soak(directory: Path, quiet_s: float, hostile_s: float, partitions: int, kinds: Sequence[str] = ()) -> Outcome:
    """Run a server, good clients, and after a while bad ones beside them.

    Args:
        directory: Where the server's log is.
        quiet_s: How long the good ones are alone, seconds.
        hostile_s: How long they are not, after they were beside surveys alone for as long as before.
        partitions: How many partitions there are besides.
        kinds: The kinds of hostile clients; all where none is named.
    """
    environment = {"HEADSTREAM_MEMORY_BUDGET": BUDGET, "IGGY_QUIC_ENABLED": "true", "IGGY_QUIC_ADDRESS": "127.0.0.1:0"}
    with ServerProcess(directory / "log", environ=environment) as server:
        prepare(server, partitions)
        quiet, surveyed, hostile = Phase("quiet"), Phase("surveys"), Phase("all")
        with working(server) as good:
            good.run(quiet, server, quiet_s)
            beside(good, surveyed, server, quiet_s, ["surveys"])
            beside(good, hostile, server, hostile_s, kinds)
            good.wait_until_received()
            time.sleep(3)  # the server looks once a second whether memory can be given back
            assert server.is_running
            return Outcome(quiet, surveyed, hostile, good.sent, good.received, server.resident_bytes)


def beside(good: Good, phase: Phase, server: ServerProcess, seconds: float, kinds: Sequence[str]) -> None:
    """Have good clients work beside hostile ones."""
    current = tomllib.loads((server.data / "runtime" / "current_config.toml").read_text())
    quic = current["quic"]["address"].rpartition(":")[2]
    ports = (str(server.tcp[1]), str(server.http[1]), quic)
    program = (sys.executable, "-m", "tests.support.server.hostile")
    command = [*_OTHER_MACHINE, *program, *ports, str(seconds), *kinds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        good.run(phase, server, seconds)
        output, _ = process.communicate(timeout=120)
    phase.rounds.update(json.loads(output.splitlines()[-1])["rounds"])


def prepare(server: ServerProcess, partitions: int) -> None:
    """Make the users and topics of both sides."""
    with TcpPeer(server.tcp) as root:
        root.login()
        for stream in ("shop", "mad"):
            root.ask(streams.CreateStream(0, stream))
        root.ask(make_topic("shop", 1, "orders"))
        root.ask(make_topic("mad", 1, "big"))
        for number in range(0, partitions, _PARTITIONS_A_TOPIC):
            root.ask(make_topic("mad", min(_PARTITIONS_A_TOPIC, partitions - number), f"wide-{number}"))
        rights = permissions.Permissions(streams={2: permissions.StreamPermissions(True, True, True, True, True, True)})
        root.ask(users.CreateUser("mallory", "mallory", users.UserStatus.ACTIVE, rights))
        sent = encode_sent([hs.Message(payload=bytes(BIG_BYTES))])
        for _ in range(20):
            root.ask(messages.SendMessages("mad", "big", hs.Partitioning.partition(1), sent))


def make_topic(stream: str, partitions: int, name: str) -> topics.CreateTopic:
    return topics.CreateTopic(stream, 0, partitions, topics.Compression.NONE, topics.NEVER, topics.SERVER_DEFAULT, 0, name)


class Good:
    """A producer and a consumer that do as they should.

    Args:
        log: The producer's client.
    """

    def __init__(self, log: hs.Client) -> None:
        self._log = log
        self._arrived = threading.Condition()
        self._sent_s: list[float] = []
        self._phase = Phase("none")
        self.received: list[int] = []

    @property
    def sent(self) -> int:
        """How many messages were sent."""
        return len(self._sent_s)

    def run(self, phase: Phase, server: ServerProcess, seconds: float) -> None:
        """Send one message after the other for a time."""
        self._phase = phase
        until_s = time.monotonic() + seconds
        echo = [sys.executable, "-m", "tests.support.server.echo", str(seconds)]
        with self._log.producer(TOPIC) as producer, subprocess.Popen(echo, stdout=subprocess.PIPE, text=True) as echoing:
            while time.monotonic() < until_s:
                began_s = time.perf_counter()
                self._sent_s.append(began_s)
                producer.send(str(self.sent - 1).encode())
                producer.flush()
                phase.sends_s.append(time.perf_counter() - began_s)
                if self.sent % 50 == 0:
                    phase.most_resident_bytes = max(phase.most_resident_bytes, server.resident_bytes)
                time.sleep(_SEND_S)
            phase.echoes_s += json.loads(echoing.communicate(timeout=60)[0])

    def take(self, payload: bytes) -> None:
        """Take note of a message that has arrived."""
        with self._arrived:
            number = int(payload)
            self.received.append(number)
            self._phase.arrivals_s.append(time.perf_counter() - self._sent_s[number])
            self._arrived.notify_all()

    def wait_until_received(self) -> None:
        """Wait until all that was sent has arrived."""
        with self._arrived:
            self._arrived.wait_for(lambda: len(self.received) >= self.sent, _ARRIVAL_S)


@contextmanager
def working(server: ServerProcess) -> Iterator[Good]:
    """Run a consumer beside the body."""
    url = f"headstream://iggy:iggy@{server.tcp[0]}:{server.tcp[1]}"
    with hs.connect(url) as log, hs.connect(url) as other:
        good, is_over = Good(log), threading.Event()

        def consume() -> None:
            with other.consumer(TOPIC, group="billing") as consumer:
                while not is_over.is_set():
                    for message in consumer.poll(timeout_ms=200):
                        good.take(bytes(message.payload or b""))
                    consumer.commit()

        thread = threading.Thread(target=consume)
        thread.start()
        try:
            yield good
        finally:
            is_over.set()
            thread.join()
