"""What the server's memory is while it starts, takes many gigabytes, gives them out again, and rests: flat, or not.

4 connections send 1000 messages of 1000 bytes at a time, to a topic each; then each polls its topic from its beginning to its
end. Memory is what the server's process has resident. The argument is how many gigabytes are sent; with another than 10 the
results are not written down.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from bench.machine import Report  # noqa: E402
from headstream.core.codec.binary import encode_sent  # noqa: E402
from headstream.core.model.message import Message  # noqa: E402
from headstream.core.model.partitioning import Partitioning  # noqa: E402
from headstream.core.model.polling import ConsumerKind, PollingKind  # noqa: E402
from headstream.core.wire.commands.messages import PollMessages, SendMessages  # noqa: E402
from headstream.core.wire.commands.offsets import ConsumerRef  # noqa: E402
from headstream.core.wire.commands.streams import CreateStream  # noqa: E402
from headstream.core.wire.commands.topics import NEVER, Compression, CreateTopic  # noqa: E402
from headstream.core.wire.frames import encode_request  # noqa: E402
from tests.support.server.peers import TcpPeer  # noqa: E402
from tests.support.server.server_process import ServerProcess  # noqa: E402

GIGABYTES = 10
CONNECTIONS = 4
MESSAGES = 1000
DATA = encode_sent([Message(payload=b"x" * 1000)] * MESSAGES)
IDLE_S = 5.0


def send(peer: TcpPeer, topic: int, requests: range) -> None:
    """Send as many requests as the range has."""
    command = SendMessages("bench", topic, Partitioning.partition(1), DATA)
    frame = encode_request(command.code, command.encode())
    for _ in requests:
        status, _body = peer.exchange(frame)
        if status:
            raise RuntimeError(f"status {status}")


def poll(peer: TcpPeer, topic: int, requests: range) -> None:
    """Poll what the requests of the range have sent."""
    for number in requests:
        offset = number * MESSAGES
        consumer = ConsumerRef(ConsumerKind.CONSUMER, 1)
        found = peer.ask(PollMessages(consumer, "bench", topic, 1, PollingKind.OFFSET, offset, MESSAGES, False))
        if found.count != MESSAGES:
            raise RuntimeError(f"{found.count} messages at offset {offset}")


def on_all(peers: list[TcpPeer], work: Callable[[TcpPeer, int, range], None], requests: range) -> None:
    """Do the same on all connections at once."""
    failed: list[BaseException] = []

    def run(peer: TcpPeer, topic: int) -> None:
        try:
            work(peer, topic, requests)
        except BaseException as error:  # it is raised again, below
            failed.append(error)

    threads = [threading.Thread(target=run, args=(peer, topic)) for topic, peer in enumerate(peers, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def main(gigabytes: int = GIGABYTES) -> None:
    with (
        Report("server_memory", write=gigabytes == GIGABYTES) as report,
        tempfile.TemporaryDirectory() as directory,
        ServerProcess(Path(directory) / "log") as server,
    ):
        report.line(f"resident memory, MB; {CONNECTIONS} connections, {MESSAGES} x 1000 B a request")
        report.line(f"idle, no client connected             {server.resident_bytes / 1e6:6.0f}")
        peers = [TcpPeer(server.tcp) for _ in range(CONNECTIONS)]
        for peer in peers:
            peer.login()
        peers[0].ask(CreateStream(0, "bench"))
        for topic in range(1, CONNECTIONS + 1):
            peers[0].ask(CreateTopic("bench", topic, 1, Compression.NONE, NEVER, NEVER, 0, f"topic-{topic}"))
        a_gigabyte = 1_000_000_000 // (MESSAGES * 1000 * CONNECTIONS)
        for verb, work in (("sent", send), ("polled", poll)):
            for number in range(gigabytes):
                on_all(peers, work, range(number * a_gigabyte, (number + 1) * a_gigabyte))
                report.line(f"{number + 1:3} GB {verb:6}                         {server.resident_bytes / 1e6:6.0f}")
        for peer in peers:
            peer.close()
        time.sleep(IDLE_S)
        report.line(f"idle again, after {IDLE_S:.0f} s                 {server.resident_bytes / 1e6:6.0f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
