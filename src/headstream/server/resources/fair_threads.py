"""FairThreads: a few threads that serve clients round robin, regardless of the number of requests per client."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from functools import partial
from typing import Any, TypeVar

_T = TypeVar("_T")


class FairThreads:
    """Threads with one queue per client, served round robin.

    Args:
        most_waiting: Maximum number of pending functions; None: no limit.
        refuse: Returns the error for a function above the limit.
    """

    def __init__(
        self, count: int, name: str, most_waiting: int | None = None, refuse: Callable[[], Exception] = RuntimeError
    ) -> None:
        self._most_waiting = most_waiting
        self._refuse = refuse
        self._condition = threading.Condition()
        self._queues: OrderedDict[Hashable, deque[Callable[[], None]]] = OrderedDict()
        self._is_closed = False
        self._threads = [threading.Thread(target=self._serve, name=f"{name}-{number}", daemon=True) for number in range(count)]
        self._waiting: set[Future[Any]] = set()
        for thread in self._threads:
            thread.start()

    def submit(self, client: Hashable, function: Callable[[], _T]) -> Future[_T]:
        """Run a function when the client is next. The future fails above the limit of pending functions; close() cancels it."""
        future: Future[_T] = Future()
        with self._condition:
            if self._is_closed:
                future.cancel()
                return future
            if self._most_waiting is not None and len(self._waiting) >= self._most_waiting:
                future.set_exception(self._refuse())
                return future
            self._waiting.add(future)
            self._queues.setdefault(client, deque()).append(partial(self._run, future, function))
            self._condition.notify()
        return future

    def close(self) -> None:
        """Cancel pending functions; end the threads after their current functions."""
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
        while True:
            with self._condition:
                while not self._queues and not self._is_closed:
                    self._condition.wait()
                if self._is_closed:
                    return
                client, queue = self._queues.popitem(last=False)
                run = queue.popleft()
                if queue:
                    self._queues[client] = queue  # after all other clients
            run()
            del run  # releases the response that the future holds

    def _run(self, future: Future[_T], function: Callable[[], _T]) -> None:
        with self._condition:
            self._waiting.discard(future)
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(function())
        except BaseException as error:  # result() raises the error
            future.set_exception(error)
