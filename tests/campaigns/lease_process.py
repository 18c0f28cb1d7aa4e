"""The process of a history of leases: it is killed and started again, and its clocks go on, or jump."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

from headstream.broker.broker import Broker
from headstream.client.client import Client
from headstream.core.model.groups import Member
from headstream.core.model.identifiers import TopicName
from tests.campaigns.faulty_files import Killed
from tests.campaigns.lease_model import HeldJob, PageFiles, WorkerGroup
from tests.campaigns.log_histories import KillableLog

SECOND: Final = 1_000_000
TOPIC: Final = TopicName("shop", "jobs")
_IDENTITY: Final = "00000000-0000-4000-8000-000000000001"
_T = TypeVar("_T")


class LeaseProcess:
    """A process that has a log, and the workers of some groups.

    Args:
        seed: Decides when it is killed, and its clocks.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._files = PageFiles(seed)
        self._steady_us = 1_000 * SECOND
        self._wall_us = 1_700_000_000 * SECOND
        self._process = 0
        self._groups: list[WorkerGroup] = []
        self.counts: Counter[str] = Counter()

    def _open(self, root: str) -> None:
        self._log = KillableLog(root, self._files, 2000)
        self._log.start_writing(_IDENTITY, 1, briefly=True)

    def _start(self) -> None:
        self._broker = Broker(self._log, clock_us=lambda: self._wall_us, monotonic=lambda: self._steady_us / SECOND)
        self._client = Client(self._broker)
        self._process += 1
        self._note_clock()
        for group in self._groups:
            group.members = [self._join(group) for _ in range(self._random.randint(1, 4))]

    def _join(self, group: WorkerGroup) -> Member:
        return self._broker.groups.join(TOPIC, group.name, is_shared=True)

    def _restart(self, *, may_jump: bool = True) -> None:
        self._files.revive()
        for group in self._groups:
            for member in group.members:  # the system releases the locks of a killed process
                self._broker.groups.leave(TOPIC, member)
        self._log.crash()
        if may_jump and self._random.random() < 0.3:
            self._jump()
        self._open(self._log.root)
        self._start()
        self.counts["restarts"] += 1

    def _call(self, request: Callable[[], _T], *, may_jump: bool = True) -> _T:
        """Return the result of a request; if the process is killed, the next one repeats it.

        Args:
            may_jump: Whether the clock can jump before it is repeated: a lease that no worker heard of can end by that.
        """
        while True:
            try:
                return request()
            except Killed:
                self.counts["kills"] += 1
                for group in self._groups:
                    group.pauses.interrupt()
                self._restart(may_jump=may_jump)

    def _arm(self) -> None:
        """Kill the process at one of its next operations."""
        self._files.killed_in = self._random.randint(1, 60)

    def _leave(self) -> None:
        group = self._random.choice(self._groups)
        self._broker.groups.leave(TOPIC, group.members.pop())
        if not group.members or self._random.random() < 0.5:
            group.members.append(self._join(group))

    def _wait(self) -> None:
        passed_us = int(self._random.choice((0.001, 0.5, 3, 20, 90)) * SECOND)
        self._steady_us += passed_us
        self._wall_us += passed_us
        self._note_clock()

    def _jump(self) -> None:
        jump_us = self._random.choice((-86_400, -30, 30, 86_400)) * SECOND
        self._wall_us += jump_us
        for group in self._groups:
            if jump_us < 0:  # a pause never lasts longer than its rule says: it ends earlier by the clock
                group.pauses.until_us, group.pauses.is_on_trial = 0, False
        self._note_clock()

    def _is_over(self, held: HeldJob) -> bool:
        """Return whether a lease can have ended: by its time, or by the clock that a new process reads its end with."""
        return self._steady_us >= held.steady_end_us

    def _note_clock(self) -> None:
        """Note when leases of an earlier process can end, if this one reads their end now."""
        for group in self._groups:
            for job in group.jobs.values():
                held = job.held
                if held is not None and held.process != self._process:
                    left_us = max(0, held.wall_end_us - self._wall_us)
                    held.steady_end_us = min(held.steady_end_us, self._steady_us + left_us)
