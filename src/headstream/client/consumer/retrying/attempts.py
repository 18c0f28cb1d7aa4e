"""Attempts: the result of a failed attempt, and whether a new attempt can start. No I/O except reading the host name."""

from __future__ import annotations

import os
import random
import socket
from dataclasses import dataclass
from typing import Final

from headstream.core.model.deliveries import Retry, cut_error
from headstream.core.model.identifiers import TopicName

_MAX_WORKER_BYTES: Final = 255


@dataclass(frozen=True, slots=True)
class Failure:
    """The consequence of a failed attempt.

    Args:
        error: Stored with the failure.
        delay_us: Delay before the next attempt, microseconds.
        reason: Reason for the dead letter, a code of DeadLetterReason; empty if the message is retried.
    """

    failures: int
    error: str
    delay_us: int = 0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How a consumer handles failing messages; `dead_letter` is the topic for permanently failed messages, or None."""

    group: str
    retry: Retry
    dead_letter: TopicName | None

    def failure(self, failures: int, error: str | BaseException, reason: str, delay_us: int | None) -> Failure:
        """Return the result of a message's failed attempt number `failures`.

        Args:
            reason: A code of DeadLetterReason, used after the last attempt.
            delay_us: Delay before the next attempt, microseconds; None uses the policy's delay.
        """
        if self.retry.is_last(failures):
            return self.give_up(failures, error, reason)
        delay_us = self.retry.delay_after(failures, random.random()) if delay_us is None else delay_us
        return Failure(failures, _text_of(error), delay_us)

    def give_up(self, failures: int, error: str | BaseException, reason: str) -> Failure:
        """Return the failure of a message that is not retried."""
        return Failure(failures, _text_of(error), 0, reason)


class PauseGate:
    """Decides whether a consumer can start a new attempt; times are monotonic seconds.

    Attributes:
        is_on_trial: Whether the group is or was paused; until an attempt succeeds, one message at a time is delivered.
    """

    def __init__(self) -> None:
        self._until_s = 0.0
        self.is_on_trial = False

    def update_from_server(self, paused_us: int, succeeded: int, now_s: float) -> None:
        """Update the pause from a response of the server.

        Args:
            paused_us: Remaining pause, microseconds; 0 if the group runs or is on trial.
            succeeded: Number of successful attempts that are recorded in the log.
        """
        if paused_us:
            self._until_s, self.is_on_trial = now_s + paused_us / 1e6, True
        elif succeeded:
            self.is_on_trial = False

    def left_s(self, now_s: float) -> float:
        """Return the remaining time of the pause, seconds."""
        return max(0.0, self._until_s - now_s)


def _text_of(error: str | BaseException) -> str:
    return cut_error(f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error)


def worker_name() -> str:
    """Return the name of this process for display: host name and process id."""
    return f"{socket.gethostname()}-{os.getpid()}".encode()[:_MAX_WORKER_BYTES].decode(errors="ignore")
