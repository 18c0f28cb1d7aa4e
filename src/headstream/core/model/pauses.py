"""Pauses: if too many of a group's last attempts fail, the group receives no messages for a time, then one trial message.

running    messages are delivered          paused    no message is delivered until the pause ends
on trial   one message is delivered: if its attempt succeeds, the group runs again; if it fails, the group is paused again
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headstream.errors import InvalidOptionError

MAX_PAUSE_ATTEMPTS: Final = 10_000
"""Maximum number of attempts that are stored per group, as one bit per attempt in a file."""

MAX_PAUSE_US: Final = 24 * 3_600_000_000
"""Maximum length of a pause, microseconds, so that operators do not forget a paused group."""


class PauseRule(NamedTuple):
    """A group is paused for `pause_us` microseconds after `failures` failures among its last `attempts` attempts."""

    failures: int
    attempts: int
    pause_us: int

    def check(self) -> PauseRule:
        """Return the rule; InvalidOptionError if a value is out of range."""
        if not 1 <= self.failures <= self.attempts <= MAX_PAUSE_ATTEMPTS:
            raise InvalidOptionError(
                f"a pause after {self.failures} failures among {self.attempts} attempts is not possible",
                advice=f"Set pause_attempts to a value from 1 to {MAX_PAUSE_ATTEMPTS}, and pause_share above 0 and at most 1",
            )
        if not 1 <= self.pause_us <= MAX_PAUSE_US:
            raise InvalidOptionError(f"the pause of a group must be 1 us to 24 h, not {self.pause_us} us")
        return self


class GroupPause(NamedTuple):
    """The pause state of a group.

    Args:
        until_us: End of the pause, microseconds since 1970 UTC; 0 while the group runs. After this time the group is on trial.
        attempts_count: Number of last attempts that are stored; 0 if the group has no rule.
    """

    until_us: int = 0
    begun_us: int = 0
    failed_count: int = 0
    attempts_count: int = 0
    pauses_count: int = 0
