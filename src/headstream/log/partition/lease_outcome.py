"""LeaseOutcome: what a change of leases did, for the journal, the dead letter, the worker and the counters."""

from __future__ import annotations

from dataclasses import dataclass, field

from headstream.core.model.deliveries import Delivery
from headstream.core.model.leases import LeaseRefusal
from headstream.core.model.transitions import Transition
from headstream.log.partition.delivery_journal import Touched

__all__ = ["LeaseOutcome"]


@dataclass(slots=True)
class LeaseOutcome:
    """What a change did, for the journal and the counters.

    Args:
        waits: Ranges that wait now.
        failing: Messages that failed.
        leased: Tokens of new leases.
        settled: Token and range: what a worker settled.
        ended: Token and range: what is not leased any more, because its time was over.
        deferred: Ranges that are deferred now.
        extended: Token and message: what has an end of its own now.
        poisoned: Messages to copy into the dead letter.
        refused: What was refused.
        succeeded_count: How many attempts have succeeded now.
        failed_count: How many have failed now.
        transitions: What has happened, for counters and audit rows.
    """

    waits: list[tuple[int, int]] = field(default_factory=list)
    failing: list[int] = field(default_factory=list)
    leased: list[int] = field(default_factory=list)
    settled: list[tuple[int, int, int]] = field(default_factory=list)
    ended: list[tuple[int, int, int]] = field(default_factory=list)
    deferred: list[tuple[int, int]] = field(default_factory=list)
    extended: list[tuple[int, int]] = field(default_factory=list)
    poisoned: list[Delivery] = field(default_factory=list)
    refused: list[LeaseRefusal] = field(default_factory=list)
    succeeded_count: int = 0
    failed_count: int = 0
    transitions: list[Transition] = field(default_factory=list)

    def touched(self) -> Touched:
        """Return it for the journal."""
        return Touched(
            waits=tuple(self.waits),
            failing=tuple(self.failing),
            leased=tuple(self.leased),
            settled=tuple(self.settled),
            ended=tuple(self.ended),
            deferred=tuple(self.deferred),
            extended=tuple(self.extended),
        )
