"""A server and unauthenticated clients: what they hold of it does not hurt its users."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.core.model.partitioning import Partitioning
from headstream.core.wire.commands.messages import SendMessages
from headstream.core.wire.commands.streams import CreateStream
from headstream.core.wire.commands.topics import NEVER, SERVER_DEFAULT, Compression, CreateTopic
from tests.support.server.certificates import make_certificate
from tests.support.server.peers import TcpPeer
from tests.support.waiting import wait_until

OPEN_FILES = 300
SILENT = 320
TOPICS = 60


@contextmanager
def tls_server(directory: Path) -> Iterator[tuple[str, int]]:
    """Run a server that may have few files open, and takes encrypted connections alone; give its address."""
    key, certificate = make_certificate("localhost")
    pem, key_pem = directory / "certificate.pem", directory / "key.pem"
    pem.write_bytes(certificate.public_bytes(Encoding.PEM))
    key_pem.touch(0o600)
    key_pem.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    config = directory / "server.toml"
    config.write_text(
        f'[tcp]\naddress = "127.0.0.1:0"\n[tcp.tls]\nenabled = true\ncertificate = "{pem}"\n'
        f'[http]\nenabled = false\n[headstream]\ntcp_key_file = "{key_pem}"\npassword_rounds = 4\n'
    )
    data = directory / "log"
    server = f"exec {sys.executable} -m headstream.cli server --data {data} --config {config}"
    command = ["sh", "-c", f"ulimit -n {OPEN_FILES}; {server}"]
    with (directory / "output").open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            current = data / "runtime" / "current_config.toml"
            wait_until(lambda: current.exists() or process.poll() is not None)
            assert process.poll() is None, (directory / "output").read_text()
            host, _, port = tomllib.loads(current.read_text())["tcp"]["address"].rpartition(":")
            yield host, int(port)
        finally:
            process.kill()


def test_sends_find_files_when_more_clients_than_files_begin_a_handshake(tmp_path: Path) -> None:
    with tls_server(tmp_path) as address, ExitStack() as stack:
        trusting = ssl.create_default_context(cafile=str(tmp_path / "certificate.pem"))
        peer = stack.enter_context(TcpPeer(address))
        peer.socket = trusting.wrap_socket(peer.socket, server_hostname="localhost")
        peer.login()
        peer.ask(CreateStream(0, "shop"))
        for number in range(TOPICS):
            peer.ask(CreateTopic("shop", 0, 1, Compression.NONE, NEVER, SERVER_DEFAULT, 0, f"orders-{number}"))
        for _ in range(SILENT):
            stack.enter_context(socket.create_connection(address, 20))
        sent = encode_sent([Message(payload=b"x" * 100)])
        for number in range(TOPICS):
            peer.ask(SendMessages("shop", f"orders-{number}", Partitioning.partition(1), sent))
    assert "Too many open files" not in (tmp_path / "output").read_text()
