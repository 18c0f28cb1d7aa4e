"""A peer of a client over TCP that does what a test says: answers, refuses, falls silent, hangs up."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from headstream.core.wire.command_classes import decode_command
from headstream.core.wire.commands.sessions import LoggedIn, Login
from headstream.core.wire.extensions.topic_options import GetIdentity, Identity
from headstream.core.wire.frames import FrameBuffer, encode_response
from headstream.core.wire.records import Command
from headstream.core.wire.refusals import encode_refusal, status_of
from headstream.errors import HeadstreamError

HANG_UP = object()
"""In place of a reply: the connection is closed."""

SILENCE = object()
"""In place of a reply: nothing is ever said."""


class ScriptedServer:
    """Answers what a function says; `commands` are those it was asked, but for logins and the first look.

    Args:
        answer: Returns the reply to a command, HANG_UP, SILENCE, or the bytes of a whole response; or raises its error.
    """

    def __init__(self, answer: Callable[[Command[Any]], Any]) -> None:
        self._answer = answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.commands: list[Command[Any]] = []
        self.logins: list[Login] = []
        self._links: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"headstream://iggy:secret@127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                link = self._listener.accept()[0]
            except OSError:
                return
            self._links.append(link)
            self._threads.append(threading.Thread(target=self._serve, args=(link,)))
            self._threads[-1].start()

    def _serve(self, link: socket.socket) -> None:
        frames = FrameBuffer.for_requests()
        with link:
            while True:
                try:
                    data = link.recv(1 << 16)
                except OSError:
                    return
                if not data:
                    return
                for frame in frames.feed(data):
                    response = self._respond(decode_command(frame.number, frame.payload))
                    if response is HANG_UP:
                        return
                    if isinstance(response, bytes):
                        link.sendall(response)

    def _respond(self, command: Command[Any]) -> Any:
        try:
            if isinstance(command, Login):
                self.logins.append(command)
                return encode_response(0, Login.encode_reply(LoggedIn(1)))
            if not isinstance(command, GetIdentity):
                self.commands.append(command)
            reply = self._answer(command)
        except HeadstreamError as error:
            return encode_response(status_of(error, is_extended=True), encode_refusal(error))
        if reply is None and isinstance(command, GetIdentity):
            reply = Identity("11111111-1111-4111-8111-111111111111")
        if reply in (HANG_UP, SILENCE) or isinstance(reply, bytes):
            return reply
        return encode_response(0, type(command).encode_reply(reply))

    def hang_up(self) -> None:
        """Close every connection."""
        for link in self._links:
            _shut(link)

    def stop_listening(self) -> None:
        """Take no more connections."""
        _shut(self._listener)
        self._listener.close()

    def close(self) -> None:
        """End."""
        self.stop_listening()
        self.hang_up()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> ScriptedServer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def _shut(link: socket.socket) -> None:
    try:
        link.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
