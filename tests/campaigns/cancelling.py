"""Calls of asynchronous objects that are cancelled at a random time, and the list of all calls that there are."""

from __future__ import annotations

import asyncio
import enum
import importlib
import inspect
import pkgutil
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Literal

import pytest

from headstream.client import worker

__all__ = ["CANCELLED", "Canceller", "find_coroutines", "impatient", "is_impatient"]

_PACKAGES: Final = ("headstream.client", "headstream.handlers")
_INTERNAL: Final = ("Worker", "Member")
"""Classes that users do not have."""
_PROTOCOLS: Final = ("__aenter__", "__aexit__", "__anext__")


class _Outcome(enum.Enum):
    CANCELLED = enum.auto()


CANCELLED: Final = _Outcome.CANCELLED
"""The result of a call that was cancelled."""


def is_impatient() -> bool:
    """Return whether impatient() has begun: what was interrupted may have left a member or a lease at the server."""
    return worker._CANCEL_TIMEOUT_S < 1


@contextmanager
def impatient() -> Iterator[None]:
    """Interrupt every cancelled call that is not over within a few milliseconds, as if its server did not answer."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worker, "_CANCEL_TIMEOUT_S", 0.002)
        yield


class Canceller:
    """Makes calls and cancels them at random times: after some turns of the event loop, or a short time.

    Attributes:
        counts: How often each call was to be cancelled, by class and name, as `AsyncConsumer.poll`.
        went_on: Whether the program went on before the last cancelled call was over.
    """

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.counts: Counter[str] = Counter()
        self.went_on = False

    async def __call__(
        self,
        owner: object,
        name: str,
        *arguments: Any,
        call: Callable[[], Awaitable[Any]] | None = None,
        goes_on: bool = True,
        **options: Any,
    ) -> Any | Literal[_Outcome.CANCELLED]:
        """Await a call of an object, cancel it, and return its result or CANCELLED.

        Args:
            call: The call, if it is not `owner.name(*arguments, **options)`.
            goes_on: Whether the program may go on before the cancelled call is over.
        """
        rng = self.rng
        self.counts[f"{type(owner).__name__}.{name}"] += 1
        task = asyncio.ensure_future(call() if call is not None else getattr(owner, name)(*arguments, **options))
        if rng.random() < 0.5:
            for _ in range(rng.randrange(6)):
                await asyncio.sleep(0)
        else:
            await asyncio.wait({task}, timeout=rng.random() ** 3 * 0.03)
        was_cancelled = task.cancel()
        self.went_on = was_cancelled and goes_on and rng.random() < 0.3
        if self.went_on:
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            return CANCELLED
        try:
            return await task
        except asyncio.CancelledError:
            return CANCELLED

    async def perhaps(self, cancels: bool, owner: object, name: str, *arguments: Any, **options: Any) -> Any:
        """Await a call of an object, and cancel it if `cancels`."""
        if cancels:
            return await self(owner, name, *arguments, **options)
        call = options.pop("call", None)
        return await (call() if call is not None else getattr(owner, name)(*arguments, **options))


def find_coroutines() -> set[str]:
    """Return all calls of the public asynchronous classes that can be awaited, as `AsyncConsumer.poll`."""
    found: set[str] = set()
    for package in _PACKAGES:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            for kind in vars(importlib.import_module(module.name)).values():
                if inspect.isclass(kind) and kind.__module__ == module.name and kind.__name__ not in _INTERNAL:
                    found |= {
                        f"{kind.__name__}.{name}" for name in dir(kind) if _is_awaited(kind, name) and kind.__name__[0] != "_"
                    }
    return found


def _is_awaited(kind: type, name: str) -> bool:
    if name.startswith("_") and name not in _PROTOCOLS:
        return False
    member = inspect.getattr_static(kind, name)
    if isinstance(member, property):
        return "Awaitable" in str(inspect.signature(member.fget).return_annotation)  # type: ignore[arg-type]
    function = inspect.unwrap(member) if callable(member) else None
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
