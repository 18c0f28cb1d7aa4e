"""Attempts: what a consumer that counts failures says of them, and whether it may begin another one. Sans-IO but for its name."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import Final

from headstream.core.model.deliveries import DeliveryChange, DeliveryStep, Retry, cut_error
from headstream.core.model.identifiers import TopicName

__all__ = ["PauseGate", "RetryPolicy", "poisoned", "text_of", "worker_name"]

_MAX_WORKER_BYTES: Final = 255


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """What a consumer does with failing messages.

    Args:
        retry: Attempts, delays, order and pauses.
        dead_letter: Where messages go after their last attempt, or None.
    """

    group: str
    retry: Retry
    dead_letter: TopicName | None


class PauseGate:
    """Whether a consumer may begin another attempt; times are monotonic seconds.

    Attributes:
        is_on_trial: Whether the group is paused, or was: then one message at a time is delivered, until one succeeds.
    """

    def __init__(self) -> None:
        self._until_s = 0.0
        self.is_on_trial = False

    def hear(self, paused_us: int, succeeded: int, now_s: float) -> None:
        """Record what the log says.

        Args:
            paused_us: For how long the group is paused, microseconds; 0 while it runs or is on trial.
            succeeded: How many successful attempts the log was told.
        """
        if paused_us:
            self._until_s, self.is_on_trial = now_s + paused_us / 1e6, True
        elif succeeded:
            self.is_on_trial = False

    def left_s(self, now_s: float) -> float:
        """Return how long no attempt may begin, seconds."""
        return max(0.0, self._until_s - now_s)


def poisoned(offset: int, failures: int, reason: str, error: str) -> DeliveryChange:
    """Return the step of a message that is given up."""
    return DeliveryChange(DeliveryStep.POISONED, offset, offset + 1, failures, 0, reason, cut_error(error))


def text_of(error: str | BaseException) -> str:
    """Return the text of an error that is stored."""
    return f"{type(error).__name__}: {error}" if isinstance(error, BaseException) else error


def worker_name() -> str:
    """Return the name of this process, for people: its host and number."""
    return f"{socket.gethostname()}-{os.getpid()}".encode()[:_MAX_WORKER_BYTES].decode(errors="ignore")
