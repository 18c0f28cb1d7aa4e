"""Unit tests of headstream.client.transports.remote.connection."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

import headstream as hs
from headstream.core.wire.commands.sessions import Ping
from headstream.core.wire.commands.streams import CreateStream
from headstream.core.wire.extensions.topic_options import GetIdentity, ListOpenTopics
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import refusal
from headstream.errors import AuthenticationError, OutcomeUnknownError, ServerError, ServerUnreachableError
from tests.support.server.scripted_server import HANG_UP, SILENCE, ScriptedServer
from tests.unit.client.transports.remote.test_caller import Script


def test_a_connection_that_the_server_closed_meanwhile_is_not_used() -> None:
    with ScriptedServer(Script(CreateStream, HANG_UP)) as server, hs.connect(server.url) as log:
        server.hang_up()
        log.server.ping()  # nothing was lost: it was seen before anything was sent
        assert [type(command) for command in server.commands] == [Ping]


def test_no_answer_in_time_is_a_broken_connection() -> None:
    with (
        ScriptedServer(Script(ListOpenTopics, SILENCE)) as server,
        hs.connect(server.url + "?timeout_ms=60&retry_timeout_ms=0") as log,
        pytest.raises(OutcomeUnknownError, match="no answer within 60 ms"),
    ):
        log.topics()


@pytest.mark.parametrize("status", [30, 40])
def test_a_server_that_has_forgotten_the_connection_is_logged_in_to_again(status: int) -> None:
    script = Script(CreateStream, refusal(status), ServerError("second"))
    with ScriptedServer(script) as server, hs.connect(server.url) as log, pytest.raises(ServerError, match="second"):
        log.create_stream("shop")
    assert len(server.logins) == 2


def test_the_first_connection_is_tried_once_and_the_error_says_where() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(ServerUnreachableError, match=rf"Connection refused \(headstream://127.0.0.1:{port}\)") as caught:
        hs.connect(f"headstream://u:secret@127.0.0.1:{port}")
    assert "secret" not in str(caught.value)


def test_a_plain_iggy_server_is_refused_by_name() -> None:
    with (
        ScriptedServer(Script(GetIdentity, refusal(3))) as server,
        pytest.raises(ServerError, match=r"does not support Headstream's own commands .*If the server is an Iggy server"),
    ):
        hs.connect(server.url)


def test_a_wrong_password_says_who_and_where_and_not_which() -> None:
    def answer(command: Command[Any]) -> Any:
        raise AssertionError

    class Refusing(ScriptedServer):
        def _respond(self, command: Command[Any]) -> Any:
            return (42).to_bytes(4, "little") + bytes(4)

    with Refusing(answer) as server, pytest.raises(AuthenticationError, match="user 'iggy' cannot log in") as caught:
        hs.connect(server.url)
    assert "secret" not in str(caught.value)


def test_an_invalid_response_leaves_the_outcome_unknown() -> None:
    with (
        ScriptedServer(Script(ListOpenTopics, b"\xff" * 40)) as server,
        hs.connect(server.url + "?retry_timeout_ms=0") as log,
        pytest.raises(OutcomeUnknownError, match="invalid response"),
    ):
        log.topics()


@pytest.mark.parametrize(
    ("scheme", "said", "text"),
    [
        (
            "headstream",
            b"",
            r"cannot be reached: the connection to the server broke: the server closed the connection \(head[^ ]*\)\. Check",
        ),
        (
            "headstream",
            b"HTTP/1.1 400 Bad Request\r\n\r\n",
            r"the server speaks HTTP: begin the URL with http://\) \(head[^ ]*\)\. Check",
        ),
        ("http", b"\x00\x01\x02\n", r"broke: the server does not speak HTTP \(http://[^ ]*\)\. Check"),
        ("https", b"no TLS at all", r"cannot be reached: the port does not support TLS \(https://[^ ]*\)\. Begin"),
    ],
)
def test_a_server_of_something_else_is_told_in_plain_words(
    scheme: str, said: bytes, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headstream.client.transports.remote.connection._TLS_PROBE_S", 0.2)  # this one does not answer it

    def answer() -> None:
        link, _ = listener.accept()
        with link:
            link.recv(1 << 16)
            link.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(ServerUnreachableError, match=text):
            hs.connect(f"{scheme}://iggy:iggy@127.0.0.1:{listener.getsockname()[1]}")
        thread.join()
