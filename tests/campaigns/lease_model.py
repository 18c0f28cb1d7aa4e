"""The model of a history of leases: each message of a group, the lease that it is under, its outcome, and the group's pauses."""

from __future__ import annotations

from dataclasses import dataclass, field

from headstream.core.model.deliveries import RetryOrder
from headstream.core.model.groups import Member
from headstream.core.model.leases import LeaseStep
from headstream.core.model.pauses import PauseRule
from tests.campaigns.faulty_files import FaultyFiles


class PageFiles(FaultyFiles):
    """Files whose writes within a page are whole when the process is killed, as the system's are."""

    def is_last_operation(self) -> bool:
        """Return false: a write happens, or it does not."""
        return False


@dataclass(slots=True)
class HeldJob:
    """A lease of one message, as the model knows it; a new process reads its end with the clock of the wall."""

    token: int
    steady_end_us: int
    wall_end_us: int
    process: int


@dataclass(slots=True)
class Job:
    """One message of one group."""

    key: bytes | None
    failures: int = 0
    held: HeldJob | None = None
    is_deferred: bool = False
    was_deferred: bool = False
    fate: str = ""
    tokens: list[int] = field(default_factory=list)


@dataclass(slots=True)
class GroupPauses:
    """What the log has said about the pauses of a group.

    Args:
        rule: When it is paused; None for never.
        until_us: Until when it is paused at least, by the clock of the wall; 0 while it runs.
        is_on_trial: Whether one message decides after that; false also if it is unknown, since a call was interrupted.
        trial: That message, once it is leased.
        failures: Failed attempts since it ran.
        streak: Failed attempts one after the other, of calls that were not interrupted.
        is_unsure: Whether a call was interrupted: its attempt can be recorded, or not.
    """

    rule: PauseRule | None
    until_us: int = 0
    is_on_trial: bool = False
    trial: Job | None = None
    failures: int = 0
    streak: int = 0
    is_unsure: bool = False

    def interrupt(self) -> None:
        """Note that a call was interrupted."""
        self.is_on_trial, self.is_unsure = False, True

    def check_grant(self, granted: list[Job], now_us: int, *, is_paused: bool, is_trial_live: bool) -> None:
        """Check the messages that were leased: none while it is paused, one at a time on trial."""
        if now_us < self.until_us:
            assert is_paused, "a paused group was not told so"
            assert not granted, "a paused group got messages"
        elif self.is_on_trial:
            assert len(granted) <= 1, f"{len(granted)} messages are on trial"
            assert not (granted and is_trial_live), "a second message is on trial"
            self.trial = granted[0] if granted else self.trial

    def note_pause(self, left_us: int, now_us: int, ended_count: int) -> None:
        """Note that the log says how long the group is paused still; so many leases can have ended unnoticed."""
        assert self.rule is not None, "a group without a rule is paused"
        assert left_us <= self.rule.pause_us, f"paused for {left_us} us"
        assert self.failures + ended_count >= self.rule.failures, f"paused after {self.failures} failures"
        self.until_us, self.is_on_trial, self.trial = now_us + left_us, True, None

    def note_step(self, step: LeaseStep, left_us: int, now_us: int, ended_count: int) -> None:
        """Note an attempt, and check what the log says: a success ends a trial, a failure pauses the group again."""
        has_failed = step in (LeaseStep.FAILED, LeaseStep.POISONED)
        self.failures += has_failed
        if step is LeaseStep.DONE or self.is_unsure:
            self.streak, self.is_unsure = 0, False
        elif has_failed:
            self.streak += 1
            assert left_us or self.rule is None or self.streak < self.rule.attempts, "a group whose attempts fail is not paused"
        if now_us < self.until_us or (self.is_on_trial and has_failed):
            assert left_us, f"the pause ended with {step.name}"
        elif self.is_on_trial and step is LeaseStep.DONE:
            assert not left_us or ended_count, "the pause did not end"
        if self.is_on_trial and step is LeaseStep.DONE and not left_us:
            self.until_us, self.is_on_trial, self.trial, self.failures = 0, False, None, 0
        if left_us:
            self.note_pause(left_us, now_us, ended_count)


@dataclass(slots=True)
class WorkerGroup:
    """A group: its policy, its workers, its pauses, and its messages by partition and offset."""

    name: str
    order: RetryOrder
    attempts: int | None
    lease_us: int
    pauses: GroupPauses
    members: list[Member] = field(default_factory=list)
    jobs: dict[tuple[int, int], Job] = field(default_factory=dict)

    def check_order(self, partition: int, offset: int) -> None:
        """Check that a message that is leased overtakes no other one of its key."""
        job = self.jobs[partition, offset]
        if self.order is RetryOrder.KEY and job.key is not None and not job.was_deferred:
            for earlier in range(offset):
                other = self.jobs[partition, earlier]
                is_open = not other.fate and not other.was_deferred
                assert other.key != job.key or not is_open, f"message {offset} overtakes {earlier} of its key"
