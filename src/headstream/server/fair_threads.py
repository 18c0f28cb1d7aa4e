"""FairThreads: a few threads that serve their clients in turn, however much each of them asks for."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

__all__ = ["FairThreads"]

_T = TypeVar("_T")


class FairThreads:
    """Threads with one queue a client; the queues have their turns one after the other.

    Args:
        count: How many threads.
        name: What they are called.
        begin: What each does first.
    """

    def __init__(self, count: int, name: str, begin: Callable[[], None] | None = None) -> None:
        self._begin = begin
        self._condition = threading.Condition()
        self._queues: OrderedDict[Hashable, deque[Callable[[], None]]] = OrderedDict()
        self._is_closed = False
        self._threads = [threading.Thread(target=self._serve, name=f"{name}-{number}", daemon=True) for number in range(count)]
        self._waiting: set[Future[Any]] = set()
        for thread in self._threads:
            thread.start()

    def submit(self, client: Hashable, function: Callable[[], _T]) -> Future[_T]:
        """Run a function when it is its client's turn; after close() it is cancelled.

        Args:
            client: Whose it is.
            function: What to run.
        """
        future: Future[_T] = Future()
        with self._condition:
            if self._is_closed:
                future.cancel()
                return future
            self._waiting.add(future)
            self._queues.setdefault(client, deque()).append(partial(self._run, future, function))
            self._condition.notify()
        return future

    def close(self) -> None:
        """End the threads once they are done with what they have; what waits is cancelled."""
        with self._condition:
            self._is_closed = True
            self._queues.clear()
            waiting, self._waiting = self._waiting, set()
            self._condition.notify_all()
        for future in waiting:
            future.cancel()
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        if self._begin is not None:
            self._begin()
        while True:
            with self._condition:
                while not self._queues and not self._is_closed:
                    self._condition.wait()
                if self._is_closed:
                    return
                client, queue = self._queues.popitem(last=False)
                run = queue.popleft()
                if queue:
                    self._queues[client] = queue  # behind all others
            run()
            del run  # its future holds what was answered, which is not kept until the next request

    def _run(self, future: Future[_T], function: Callable[[], _T]) -> None:
        with self._condition:
            self._waiting.discard(future)
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function())
        except BaseException as error:  # whoever waits for the result raises it
            future.set_exception(error)
