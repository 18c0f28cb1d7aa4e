"""`headstream server` as a program: what it prints and writes down, how it ends, and what a kill leaves."""

from __future__ import annotations

import json
import random
import signal
import socket
import struct
import threading
import tomllib
from pathlib import Path

import pytest

import headstream as hs
from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.wire.commands import offsets, sessions, streams
from headstream.core.wire.commands.messages import PollMessages, SendMessages
from headstream.errors import AuthenticationError
from headstream.log.checks.verification import Verification
from headstream.log.system.files import OsFiles
from tests.support.server.served import Peer, make_topic, server_process
from tests.support.server.server_process import ServerProcess


def send_of(payload: bytes) -> SendMessages:
    return SendMessages("shop", "orders", hs.Partitioning.partition(1), encode_sent([hs.Message(payload=payload)]))


def payloads_of(peer: Peer) -> list[bytes | None]:
    found: list[bytes | None] = []
    while True:
        poll = PollMessages(
            offsets.ConsumerRef(ConsumerKind.CONSUMER, 1), "shop", "orders", 1, PollingKind.OFFSET, len(found), 1000, False
        )
        messages = decode_polled(peer.ask(poll).messages)
        if not messages:
            return found
        found += [message.payload for message in messages]


def stored_in(peer: Peer) -> int:
    poll = PollMessages(offsets.ConsumerRef(ConsumerKind.CONSUMER, 1), "shop", "orders", 1, PollingKind.OFFSET, 0, 1, False)
    return peer.ask(poll).current_offset + 1


def test_server_prints_and_writes_down_its_addresses_and_ends_in_good_order(tmp_path: Path) -> None:
    data = tmp_path / "log"
    with server_process(data) as server:
        server.wait_until_ready()
        current = tomllib.loads((data / "runtime" / "current_config.toml").read_text())
        assert current["tcp"]["address"] == str(server.addresses["tcp"])
        assert current["http"]["address"] == str(server.addresses["http"])
        assert "iggy123" not in str(current)
        with socket.create_connection(server.addresses["http"]) as over_http:
            over_http.sendall(b"GET /ping HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert over_http.recv(100).startswith(b"HTTP/1.1 200")
        with server.peer() as peer:
            make_topic(peer)
            peer.ask(send_of(b"hello"))
            with hs.connect(data.as_uri()) as beside:  # the log is one like any other, and read beside the server
                assert [message.payload for message in beside.poll("shop/orders", start="first")] == [b"hello"]
            code, logged = server.end(signal.SIGTERM)
            assert peer.is_closed()
    assert code == 0
    assert "stopped" in logged
    assert "Traceback" not in logged
    with hs.connect(data.as_uri()) as after:
        assert after.topic("shop/orders").messages_count == 1
        after.create_topic("shop/carts")  # nobody holds the lock any more


def test_server_keeps_users_and_access_tokens_over_a_restart(tmp_path: Path) -> None:
    secrets = []
    for _ in range(2):
        with server_process(tmp_path, IGGY_ROOT_USERNAME="admin", IGGY_ROOT_PASSWORD="letmein") as server:
            server.wait_until_ready()
            with Peer(socket.create_connection(server.addresses["tcp"])) as peer:
                with pytest.raises(AuthenticationError):
                    peer.log_in()
                peer.log_in("admin", "letmein")
            key = tmp_path / "runtime" / "access_tokens.key"
            assert key.stat().st_mode & 0o777 == 0o600
            secrets.append(key.read_bytes())
            assert server.end(signal.SIGINT)[0] == 0
    assert secrets[0] == secrets[1]


def test_server_begins_afresh_when_it_is_told_to_and_says_what_it_removed(tmp_path: Path) -> None:
    data, variables = tmp_path / "log", tmp_path / "variables"
    variables.write_text("IGGY_ROOT_USERNAME=admin\nIGGY_ROOT_PASSWORD='letmein'\n")
    with server_process(data) as server:
        server.wait_until_ready()
        with server.peer() as peer:
            make_topic(peer)
            peer.ask(send_of(b"hello"))
        with server_process(data, "--fresh") as other:
            _, logged = other.process.communicate(timeout=60)
        assert other.process.returncode == 1
        assert "is writing to this log" in logged
        assert server.end(signal.SIGTERM)[0] == 0
    with server_process(data, "--fresh", "-c", "file", IGGY_ENV_PATH=str(variables)) as server:
        server.wait_until_ready()
        with Peer(socket.create_connection(server.addresses["tcp"])) as peer:
            peer.log_in("admin", "letmein")
            assert peer.ask(streams.ListStreams()) == ()
        _, logged = server.end(signal.SIGTERM)
    assert f'log removed: --fresh data="{data}" removed=["catalog.sqlite"' in logged
    assert f'settings read files=["{variables}"]' in logged


def test_server_ends_at_once_when_it_is_told_twice(tmp_path: Path) -> None:
    with server_process(tmp_path, HEADSTREAM_DRAIN_TIMEOUT="1 h") as server:
        server.wait_until_ready()
        with server.peer() as peer:
            peer.send(struct.pack("<II", 1000, 101))  # a request that never comes to its end
            peer.socket.settimeout(0.6)
            server.process.send_signal(signal.SIGTERM)
            with pytest.raises(TimeoutError):
                peer.is_closed()
            assert server.end(signal.SIGTERM)[0] == 128 + signal.SIGTERM


@pytest.mark.parametrize(
    ("arguments", "environment", "told", "code"),
    [
        (["--tcp", "0.0.0.0:0"], {}, "the default password", 2),
        (["--http", "0.0.0.0:0"], {}, "the default password", 2),
        (["--tcp", "nonsense"], {}, "is not an address", 2),
        (["--tcp", "192.0.2.1:1", "--allow-default-password"], {}, "cannot listen", 1),
        (["--config", "missing.toml"], {}, "missing.toml", 1),
        ([], {"IGGY_SYSTEM_ENCRYPTION_ENABLED": "true"}, "not encrypted at rest", 2),
        ([], {"IGGY_TCP_TLS_ENABLED": "true", "IGGY_TCP_TLS_CERTIFICATE": "missing.pfx"}, "missing.pfx", 1),
    ],
)
def test_server_refuses_to_start_and_says_why_when_its_settings_cannot_be_used(
    tmp_path: Path, arguments: list[str], environment: dict[str, str], told: str, code: int
) -> None:
    with server_process(tmp_path / "log", *arguments, **environment) as server:
        _, logged = server.process.communicate(timeout=60)
    assert server.process.returncode == code
    assert told in logged
    assert "Traceback" not in logged


def test_server_lets_other_machines_in_when_the_password_is_another_or_it_is_allowed(tmp_path: Path) -> None:
    for name, arguments, environment in (
        ("allowed", ["--allow-default-password"], {}),
        ("changed", [], {"IGGY_ROOT_USERNAME": "admin", "IGGY_ROOT_PASSWORD": "letmein"}),
    ):
        with server_process(tmp_path / name, "--tcp", "0.0.0.0:0", *arguments, **environment) as server:
            server.wait_until_ready()
            with Peer(socket.create_connection(("127.0.0.1", server.addresses["tcp"].port))) as peer:
                assert peer.ask(sessions.Ping()) is None
            assert server.end(signal.SIGTERM)[0] == 0


def test_server_refuses_to_start_beside_another_writer(tmp_path: Path) -> None:
    with hs.connect(tmp_path.as_uri()) as writer:
        writer.create_topic("shop/orders")
        with server_process(tmp_path) as server:
            _, logged = server.process.communicate(timeout=60)
    assert server.process.returncode == 1
    assert "is writing to this log" in logged


def test_server_logs_a_line_of_json_an_event_and_no_secret(tmp_path: Path) -> None:
    with server_process(tmp_path, "--log-format", "json") as server:
        server.wait_until_ready()
        with Peer(socket.create_connection(server.addresses["tcp"])) as peer, pytest.raises(AuthenticationError):
            peer.log_in("iggy", "a secret of mine")
        _, logged = server.end(signal.SIGTERM)
    lines = [json.loads(line) for line in logged.splitlines()]
    lines = [line for line in lines if line["event"] != "connection limit lowered"]  # the machine's to say
    assert [line["event"] for line in lines] == ["ready", "login refused", "signal", "stopping", "stopped"]
    assert lines[1]["status"] == 42
    assert "a secret of mine" not in logged


def test_server_that_is_killed_loses_nothing_acknowledged(tmp_path: Path) -> None:
    seed = random.Random(20)
    acknowledged: dict[int, list[bytes]] = {}
    for life in range(2):
        with server_process(tmp_path) as server:
            server.wait_until_ready()
            with server.peer() as peer:
                if life == 0:
                    make_topic(peer)
                else:
                    check(payloads_of(peer), acknowledged)
            senders = [
                threading.Thread(target=send_until_killed, args=[server.peer(), 10 * life + n, acknowledged]) for n in range(3)
            ]
            for sender in senders:
                sender.start()
            with server.peer() as counting:
                until = stored_in(counting) + seed.randrange(300, 900)
                while stored_in(counting) < until:
                    pass
            server.process.kill()
            for sender in senders:
                sender.join()
    with server_process(tmp_path) as server:
        server.wait_until_ready()
        with server.peer() as peer:
            check(payloads_of(peer), acknowledged)
        assert server.end(signal.SIGTERM)[0] == 0
    assert not [finding for finding in Verification(str(tmp_path), OsFiles()).run() if finding.is_damage]


def send_until_killed(peer: Peer, sender: int, acknowledged: dict[int, list[bytes]]) -> None:
    mine = acknowledged[sender] = []
    with peer:
        try:
            while True:
                payload = b"%d:%d" % (sender, len(mine)) + b"." * (len(mine) % 700)
                peer.ask(send_of(payload))
                mine.append(payload)
        except OSError:
            return


def check(found: list[bytes | None], acknowledged: dict[int, list[bytes]]) -> None:
    """Each sender's messages are there, once and in order, and at most one more: that whose answer was lost."""
    for sender, payloads in acknowledged.items():
        stored = [payload for payload in found if payload is not None and payload.startswith(b"%d:" % sender)]
        assert stored[: len(payloads)] == payloads
        assert len(stored) <= len(payloads) + 1


SET_PROVIDER = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter(), schedule_delay_millis=600_000))
trace.set_tracer_provider(provider)
"""
"""What `opentelemetry-instrument` does: it puts a sitecustomize that sets the global provider before the program starts."""


def test_a_server_exports_all_spans_by_the_provider_that_was_set_before_it_started(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SET_PROVIDER)
    environ = {"PYTHONPATH": str(tmp_path), "HEADSTREAM_TRACING": "true"}
    with ServerProcess(tmp_path / "log", environ=environ) as server:
        with hs.connect(f"headstream://iggy:iggy@127.0.0.1:{server.tcp[1]}") as log:
            log.create_topic("shop/orders")
            for number in (1, 2, 3):
                log.send("shop/orders", b"x", headers={"traceparent": f"00-{number:032x}-{number:016x}-0{number % 2}"})
        assert server.stop() == 0
        assert server.output.count('"name": "append shop/orders"') == 2
        assert f'"trace_id": "0x{3:032x}"' in server.output
