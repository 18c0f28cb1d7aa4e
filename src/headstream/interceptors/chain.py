"""Chain: the ordered interceptors of one client, and the error policy of each interceptor.

send         in the order of the list      message -> message     InterceptorError | RejectedMessageError
receive      in the reverse order          message -> message     InterceptorError | RejectedMessageError
acknowledge, commit                        the event              InterceptorError
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headstream.core.model.headers import HeadersInput
from headstream.core.model.message import Message
from headstream.errors import HeadstreamError, InterceptorError, InvalidInputError, InvalidOptionError
from headstream.interceptors.interceptor import HOOKS, SKIPS, ErrorPolicy, Interceptor, check_policy, interceptor_name
from headstream.interceptors.loop_bridge import LoopBridge

_log: Final = logging.getLogger("headstream.interceptors")


class RejectedMessageError(Exception):
    """A message must be sent to a dead-letter topic.

    Args:
        message: The message as it was before the interceptor that failed.
        topic: `stream/topic` of the dead letters.
    """

    def __init__(self, message: Message, topic: str, reason: str) -> None:
        super().__init__(reason)
        self.message = message
        self.topic = topic
        self.reason = reason


@dataclass(frozen=True, slots=True)
class _Step:
    """One hook of one interceptor."""

    name: str
    hook: str
    call: Callable[..., Any]
    policy: ErrorPolicy
    dead_letter: str | None
    skips: Callable[[Any], bool] | None
    """Returns whether the hook can be skipped; None: the hook is always called."""


class Chain:
    """The interceptors of one client, in sending order; thread-safe if they are. InvalidOptionError: one is invalid."""

    def __init__(self, interceptors: Iterable[object]) -> None:
        steps: dict[str, list[_Step]] = {hook: [] for hook in HOOKS}
        for interceptor in interceptors:
            for step in _steps_of(interceptor):
                steps[step.hook].append(step)
        self._send = tuple(steps["on_send"])
        self._acknowledged = tuple(steps["on_acknowledged"])
        self._receive = tuple(reversed(steps["on_receive"]))
        self._commit = tuple(steps["on_commit"])
        self._bridge = LoopBridge()
        self.skips_send: Callable[[HeadersInput | None], bool] | None = _skips_of(self._send)
        """Returns whether a message with the given headers can skip send(); None: no message can skip send()."""
        self.skips_receive: Callable[[Message], bool] | None = _skips_of(self._receive)
        """Returns whether a message can skip receive(); None: no message can skip receive()."""
        every = (*self._send, *self._acknowledged, *self._receive, *self._commit)
        self.async_names = sorted({step.name for step in every if inspect.iscoroutinefunction(step.call)})
        """The names of the interceptors with a coroutine function."""

    @property
    def is_async(self) -> bool:
        """Whether a hook is a coroutine function; calls that run hooks are then made in threads of the client."""
        return bool(self.async_names)

    @property
    def reports_acknowledgements(self) -> bool:
        """Whether an interceptor has on_acknowledged."""
        return bool(self._acknowledged)

    def remember_loop(self) -> None:
        """Record the event loop for which this thread runs calls; see LoopBridge."""
        self._bridge.remember_loop()

    def send(self, message: Message) -> Message:
        """Return the message to send.

        Raises:
            InterceptorError: an interceptor raised an error; the message was not accepted.
            RejectedMessageError: the message is sent to a dead-letter topic instead.
        """
        for step in self._send:
            try:
                message = _checked(self._run(step, message))
            except Exception as error:
                self._apply_policy(step, error, message, "The message was not sent")
        return message

    def receive(self, message: Message) -> Message:
        """Return the message to deliver; errors as in send()."""
        for step in self._receive:
            try:
                changed = _checked(self._run(step, message))
                if (changed.topic, changed.partition, changed.offset) != (message.topic, message.partition, message.offset):
                    raise InvalidInputError("on_receive returned a message with another topic, partition or offset")
                message = changed
            except Exception as error:
                self._apply_policy(step, error, message, "The message is not committed; use seek() to skip it")
        return message

    def acknowledge(self, message: Message, failure: Exception | None) -> InterceptorError | None:
        """Report the outcome of a sent message. Return the InterceptorError that the caller must raise, or None."""
        return self._report(self._acknowledged, message.topic or "", message, failure)

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        """Report committed offsets; InterceptorError if an interceptor failed. The offsets remain committed."""
        error = self._report(self._commit, topic, topic, offsets)
        if error is not None:
            raise error

    def _report(self, steps: tuple[_Step, ...], where: str, *arguments: Any) -> InterceptorError | None:
        """Call all steps, and return the first InterceptorError that the caller must raise, or None."""
        found: InterceptorError | None = None
        for step in steps:
            try:
                self._run(step, *arguments)
            except Exception as error:
                if step.policy is not ErrorPolicy.RAISE:
                    _log.exception("%s of the interceptor %s failed", step.hook, step.name)
                elif found is None:
                    found = _explain(step, error, where, "The reported event has occurred nevertheless")
        return found

    def _run(self, step: _Step, *arguments: Any) -> Any:
        result = step.call(*arguments)
        return self._bridge.run(result) if inspect.iscoroutine(result) else result

    def _apply_policy(self, step: _Step, error: Exception, message: Message, advice: str) -> None:
        if step.policy is ErrorPolicy.SKIP:
            _log.error(
                "%s of the interceptor %s failed and was skipped for %s", step.hook, step.name, _where(message), exc_info=error
            )
            return
        if step.dead_letter is not None:
            raise RejectedMessageError(message, step.dead_letter, f"{step.hook} of {step.name}: {_what(error)}") from error
        raise _explain(step, error, _where(message), advice) from error


def _steps_of(interceptor: object) -> list[_Step]:
    if isinstance(interceptor, type):
        raise InvalidOptionError(f"the interceptor {interceptor.__name__} is a class", advice="Pass an instance of the class")
    name = interceptor_name(interceptor)
    policy, dead_letter = check_policy(
        interceptor, getattr(interceptor, "on_error", ErrorPolicy.RAISE), getattr(interceptor, "dead_letter", None)
    )
    steps: list[_Step] = []
    for hook in HOOKS:
        call = getattr(interceptor, hook, None)
        if callable(call) and getattr(call, "__func__", None) is not getattr(Interceptor, hook):
            skips = getattr(interceptor, SKIPS.get(hook, ""), None)
            is_asked = callable(skips) and getattr(skips, "__func__", None) is not getattr(Interceptor, SKIPS[hook])
            steps.append(_Step(name, hook, call, policy, dead_letter, skips if is_asked else None))
    if not steps:
        raise InvalidOptionError(f"{interceptor!r} is not an interceptor", advice=f"Define one of the methods {', '.join(HOOKS)}")
    return steps


def _skips_of(steps: tuple[_Step, ...]) -> Callable[[Any], bool] | None:
    """Return a function that decides whether a message can skip these steps; None if every message must be processed."""
    if not steps:
        return lambda _: True
    return steps[0].skips if len(steps) == 1 else None


def _checked(result: Any) -> Message:
    if not isinstance(result, Message):
        raise InvalidInputError(f"the result is {type(result).__name__}, not a message", advice="Return the message")
    return result


def _explain(step: _Step, error: Exception, where: str, advice: str) -> InterceptorError:
    found = InterceptorError(f"{step.hook} of the interceptor {step.name} failed: {_what(error)}", where=where, advice=advice)
    found.__cause__ = error
    return found


def _what(error: Exception) -> str:
    return error.what if isinstance(error, HeadstreamError) else f"{type(error).__name__}: {error}"


def _where(message: Message) -> str:
    if message.offset is None:
        return f"a message for {message.topic}"
    return f"{message.topic}, partition {message.partition}, offset {message.offset}"
