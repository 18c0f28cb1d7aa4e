"""The model of a history of leases: each message of a group, the lease that it is under, and its outcome."""

from __future__ import annotations

from dataclasses import dataclass, field

from headstream.model.deliveries import RetryOrder
from headstream.model.groups import Member
from headstream.testing.faulty_files import FaultyFiles

__all__ = ["HeldJob", "Job", "PageFiles", "WorkerGroup"]


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
class WorkerGroup:
    """A group: its policy, its workers, and its messages by partition and offset."""

    name: str
    order: RetryOrder
    attempts: int | None
    lease_us: int
    members: list[Member] = field(default_factory=list)
    jobs: dict[tuple[int, int], Job] = field(default_factory=dict)
