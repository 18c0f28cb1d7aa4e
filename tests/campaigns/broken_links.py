"""BrokenLinks: a TCP proxy that cuts connections at any byte, delays or drops responses, and counts what travels."""

from __future__ import annotations

import random
import select
import socket
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import Final

_HOST: Final = "127.0.0.1"
_CHUNK_BYTES: Final = 1 << 14
_CHECK_EVERY_S: Final = 0.05


class BrokenLinks:
    """Forwards connections to a port of this machine; use it in a `with` statement.

    Args:
        seed: Decides which connections break, and when.
        break_chance: Probability that a chunk is its connection's last: truncated, or followed by nothing.
        longest_delay_s: Maximum delay of a chunk, seconds.
    """

    def __init__(self, port: int, seed: int, *, break_chance: float, longest_delay_s: float) -> None:
        self._target = port
        self._random = random.Random(seed)
        self._break_chance = break_chance
        self._longest_delay_s = longest_delay_s
        self._lock = threading.Lock()
        self._links: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._is_calm = self._is_closed = False
        self._listener = socket.create_server((_HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.breaks = self.forwarded_bytes = 0

    def __enter__(self) -> BrokenLinks:
        self._begin(self._accept)
        return self

    def _begin(self, target: object, *arguments: object) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return
            try:
                server = socket.create_connection((_HOST, self._target), timeout=5)
            except OSError:
                client.close()
                continue
            for link in (client, server):
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._links |= {client, server}
            self._begin(self._forward, client, server)

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """Forward in both directions until one end closes or the connection is broken at random."""
        try:
            while True:
                ready, _, _ = select.select([client, server], [], [], _CHECK_EVERY_S)
                if self._is_closed:
                    return
                for link in ready:
                    data = link.recv(_CHUNK_BYTES)
                    if not data:
                        return
                    other = server if link is client else client
                    is_broken, delay_s, kept = self._decide(len(data))
                    if delay_s:
                        time.sleep(delay_s)
                    other.sendall(data[:kept])
                    if is_broken:
                        return
        except (OSError, ValueError):
            return
        finally:
            for link in (client, server):
                self._end(link)

    def _decide(self, size: int) -> tuple[bool, float, int]:
        """Return whether a chunk is its connection's last, its delay, and how many of its bytes are forwarded."""
        with self._lock:
            self.forwarded_bytes += size
            if self._is_calm:
                return False, 0.0, size
            delay_s = self._random.random() * self._longest_delay_s if self._random.random() < 0.1 else 0.0
            if self._random.random() >= self._break_chance:
                return False, delay_s, size
            self.breaks += 1
            return True, delay_s, self._random.choice((0, size, self._random.randrange(size + 1)))

    def _end(self, link: socket.socket) -> None:
        with self._lock:
            self._links.discard(link)
        link.close()

    def cut(self) -> None:
        """Break all current connections."""
        with self._lock:
            links = list(self._links)
            self.breaks += len(links) // 2
        for link in links:
            with suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)

    def stop_breaking(self) -> None:
        """Break no more connections."""
        self._is_calm = True

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(60)
