"""An answer that is cut short, wherever it is, leaves the outcome unknown: it is no answer, and no error of the server's."""

from __future__ import annotations

import http.client
import socket
from urllib.parse import urlsplit

import pytest

from headstream.client.transports.remote.address import parse_address
from headstream.client.transports.remote.http import HttpConnection, HttpConnector
from headstream.client.transports.remote.tcp import TcpConnection
from headstream.core.wire.extensions.producers import AppendedBatch, AppendNumbered
from headstream.core.wire.frames import encode_response
from headstream.errors import OutcomeUnknownError

COMMAND = AppendNumbered("shop", "orders", 1, 7, 0, 0, b"messages")
REPLY = AppendedBatch(5, 1_700_000_000_000_000, 3, False)
BODY = AppendNumbered.encode_reply(REPLY)
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
TYPE = b"Content-Type: application/octet-stream\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"


def ask_http(answer: bytes) -> AppendedBatch:
    """Ask over HTTP a peer that says this and closes the connection."""
    address = parse_address(urlsplit("http://iggy:secret@127.0.0.1:1"), {}, {})
    ours, its = socket.socketpair()
    link = http.client.HTTPConnection("127.0.0.1", 1)
    with ours, its:
        link.sock = ours
        its.sendall(answer)
        its.shutdown(socket.SHUT_WR)
        connection = HttpConnection(address, link, HttpConnector(address))
        try:
            return connection.exchange(COMMAND, "token")
        finally:
            connection.close()


def ask_tcp(answer: bytes) -> AppendedBatch:
    """Ask over TCP a peer that says this and closes the connection."""
    address = parse_address(urlsplit("headstream://iggy:secret@127.0.0.1:1"), {}, {})
    ours, its = socket.socketpair()
    with ours, its:
        its.sendall(answer)
        its.shutdown(socket.SHUT_WR)
        connection = TcpConnection(address, ours)
        connection.send(COMMAND)
        return connection.receive(COMMAND)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\n" + TYPE + LENGTH + b"Server: x\r\n\r\n" + BODY,
        b"HTTP/1.1 200 OK\r\n" + LENGTH + TYPE + b"Server: x\r\n\r\n" + BODY,
        b"HTTP/1.1 200 OK\r\n" + TYPE + CHUNKED + b"\r\n%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n\r\n",
    ],
)
def test_an_answer_over_http_is_lost_when_it_is_cut_at_any_byte(answer: bytes) -> None:
    assert ask_http(answer) == REPLY
    end = answer.index(BODY) + len(BODY)
    for cut in range(end):
        with pytest.raises(OutcomeUnknownError):
            ask_http(answer[:cut])


def test_an_answer_over_tcp_is_lost_when_it_is_cut_at_any_byte() -> None:
    answer = encode_response(0, BODY)
    assert ask_tcp(answer) == REPLY
    for cut in range(len(answer)):
        with pytest.raises(OutcomeUnknownError):
            ask_tcp(answer[:cut])


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_what_a_proxy_says_instead_of_the_server_leaves_the_outcome_unknown(status: int) -> None:
    page = b"<html>bad gateway</html>"
    head = b"HTTP/1.1 %d Bad\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % (status, len(page))
    with pytest.raises(OutcomeUnknownError, match=f"the server answered {status}"):
        ask_http(head + page)
