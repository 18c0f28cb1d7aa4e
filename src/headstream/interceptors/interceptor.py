"""Interceptor: the base class of interceptors, and the policies for their errors."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Mapping
from typing import Final

from headstream.core.model.headers import HeadersInput
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message
from headstream.errors import InvalidOptionError

HOOKS: Final = ("on_send", "on_acknowledged", "on_receive", "on_commit")
SKIPS: Final = {"on_send": "skips_send", "on_receive": "skips_receive"}
"""Hooks, and the methods that return whether a hook need not be called."""


class ErrorPolicy(enum.StrEnum):
    """The handling of an interceptor's error. No policy loses a message.

    `raise`: the call raises InterceptorError. A message to send is not accepted. A received message is neither delivered nor
    committed, and is read again.
    `skip`: the error is logged, and the message continues as it was before this interceptor.
    `dead_letter`: the message is sent to the interceptor's dead-letter topic as it was before this interceptor, with the reason;
    a received message is then skipped. For on_acknowledged and on_commit, `dead_letter` has the effect of `skip`.
    """

    RAISE = "raise"
    SKIP = "skip"
    DEAD_LETTER = "dead_letter"


class Interceptor:
    """Base class of interceptors, which see and can change the messages of a client.

    Override the methods that you need with `def`, or, for connect_async(), with `async def`. Any object that has at least one of
    these methods is an interceptor; this class adds type annotations and the default policy.

    Attributes:
        on_error: An ErrorPolicy or its value.
        dead_letter: `stream/topic` for the policy `dead_letter`; the topic is created if missing.
    """

    on_error: ErrorPolicy | str = ErrorPolicy.RAISE
    dead_letter: str | None = None

    def on_send(self, message: Message) -> Message | Awaitable[Message]:
        """Return the message to send, changed or unchanged. Called by send() before the message is checked and batched.

        Args:
            message: The application's message: payload, key, headers, id, topic, and the partition if the application chose it.
        """
        return message

    def on_acknowledged(self, message: Message, error: Exception | None) -> None | Awaitable[None]:
        """Receive the outcome of a sent message. Called in the producer's thread before flush() and receipts return.

        The producer sends nothing during the call, so this method must be fast, and must not use the producer.

        Args:
            message: The message as sent, after all interceptors, with its partition and, if stored, offset and timestamp.
            error: The reason why the message is not stored, or None.
        """
        return None

    def on_receive(self, message: Message) -> Message | Awaitable[Message]:
        """Return the message to deliver, changed or unchanged. Topic, partition and offset must not change.

        Called when a consumer or poll() delivers the message, in the reverse order of on_send.

        Args:
            message: A ReceivedMessage. To change the payload, use `dataclasses.replace(message, payload=…, checksum=-1)`.
        """
        return message

    def skips_send(self, headers: HeadersInput | None) -> bool:
        """Return whether a message can be sent without calling on_send; no Message is then created.

        Called for each message if this is the client's only interceptor with on_send. If skips_send() raises an error, on_send is
        called.

        Args:
            headers: The message's headers as passed to send(), unchecked.
        """
        return False

    def skips_receive(self, message: Message) -> bool:
        """Return whether a message can be delivered without calling on_receive; see skips_send()."""
        return False

    def on_commit(self, topic: str, offsets: Mapping[int, int]) -> None | Awaitable[None]:
        """Receive committed offsets, after the commit.

        Args:
            topic: `stream/topic`.
            offsets: Partition -> offset of the next message.
        """
        return None


def guard(interceptor: object, *, on_error: str, dead_letter: str | None = None) -> object:
    """Return an interceptor with another error policy.

    Args:
        interceptor: The interceptor to wrap; it is not changed.
        on_error: `raise`, `skip` or `dead_letter`.
        dead_letter: `stream/topic` for the policy `dead_letter`; the topic is created if missing.

    Raises:
        InvalidOptionError: the policy is unknown, or it is `dead_letter` without a topic.
    """
    return Guarded(interceptor, on_error, dead_letter)


class Guarded:
    """An interceptor with another error policy; see guard()."""

    def __init__(self, interceptor: object, on_error: str, dead_letter: str | None) -> None:
        self.interceptor = interceptor
        self.on_error, self.dead_letter = check_policy(interceptor, on_error, dead_letter)
        for name in (*HOOKS, *SKIPS.values()):
            if hasattr(interceptor, name):
                setattr(self, name, getattr(interceptor, name))

    def __repr__(self) -> str:
        return repr(self.interceptor)


def interceptor_name(interceptor: object) -> str:
    """Return an interceptor's class name, which identifies the interceptor in errors and logs."""
    return type(interceptor.interceptor if isinstance(interceptor, Guarded) else interceptor).__name__


def check_policy(interceptor: object, on_error: object, dead_letter: object) -> tuple[ErrorPolicy, str | None]:
    """Check and return an interceptor's error policy and dead-letter topic; `refused_policies` are not allowed.

    Raises:
        InvalidOptionError: the policy is unknown or refused, or the topic is missing or not allowed.
        InvalidInputError: the topic's name is invalid.
    """
    name = interceptor_name(interceptor)
    try:
        policy = ErrorPolicy(str(on_error))
    except ValueError:
        names = ", ".join(ErrorPolicy)
        raise InvalidOptionError(f"on_error of {name} must be one of {names}, not {on_error!r}") from None
    if policy in getattr(interceptor, "refused_policies", ()):
        raise InvalidOptionError(
            f"{name} cannot have on_error={policy.value!r}",
            advice="Use another value: a failed message would be delivered without the effect of the interceptor",
        )
    if (policy is ErrorPolicy.DEAD_LETTER) != (dead_letter is not None):
        raise InvalidOptionError(
            f"{name} cannot have on_error={policy.value!r} with dead_letter={dead_letter!r}",
            advice='Set both on_error="dead_letter" and dead_letter="stream/topic", or neither',
        )
    return policy, None if dead_letter is None else str(TopicName.parse(str(dead_letter)))
