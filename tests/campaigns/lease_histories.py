"""Histories of leases: groups of workers share partitions, and are compared with a model, through kills and jumps of the clock.

    python -m tests.campaigns leases --seeds 1-1000

One seed decides topic, groups, workers and steps: lease, settle, extend, defer, ask for deferred messages, say something late,
wait, set the clock, kill the process at any file operation. After a kill the interrupted request is repeated, as a client does.

    a lease             only of a message that is not done, and that no other worker has: its lease was settled or is over
    attempts            one more after each failure and each lease that ended; the same in every process
    pause               a paused group gets nothing, one on trial one message; it runs again after a success, whatever the clock
    key                 later messages of a key wait for the first one that is not done
    a late word         refused, and changes nothing; a repeated one is accepted, and changes nothing
    done                each message is done once, or has one dead letter, for each group
    committed offset    never behind an open message, and at the end of the partition when all are done
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from headstream.core.model.deliveries import RetryOrder
from headstream.core.model.identifiers import TopicName
from headstream.core.model.leases import Grant, LeaseChange, LeaseRefusal, LeaseRequest, LeaseStep, SettledLeases
from headstream.core.model.pauses import PauseRule
from headstream.core.model.topology import Fsync, Limits, NewTopic
from headstream.log.administration import create_topic
from tests.campaigns.lease_model import GroupPauses, HeldJob, Job, WorkerGroup
from tests.campaigns.lease_process import SECOND, TOPIC, LeaseProcess

_DEAD: Final = TopicName("shop", "dead")
_MEMORY: Final = "/dev/shm"
_TRIAL_WAIT_US: Final = 50_000
"""How long a worker waits while another one has the message on trial; longer waits are pauses."""
_ENDLESS: Final = 500
"""Rounds in which every history comes to its end."""


class LeaseHistory(LeaseProcess):
    """One history.

    Args:
        seed: Determines the history.
        steps: Number of steps.
    """

    def __init__(self, seed: int, steps: int = 150) -> None:
        super().__init__(seed)
        chance = self._random
        self._steps = steps
        self._partitions = chance.randint(1, 3)
        self._keys = chance.choice((0, 2, 5))
        self._ends = dict.fromkeys(range(1, self._partitions + 1), 0)
        self._groups = [self._make_group(number) for number in range(chance.randint(1, 2))]

    def _make_group(self, number: int) -> WorkerGroup:
        chance = self._random
        order = chance.choice((RetryOrder.SKIP, RetryOrder.KEY))
        attempts, lease_us = chance.choice((None, 1, 2, 4)), chance.choice((1, 10, 60)) * SECOND
        rule = chance.choice((None, PauseRule(1, 2, 5 * SECOND), PauseRule(3, 4, 30 * SECOND), PauseRule(2, 2, 60 * SECOND)))
        return WorkerGroup(f"g{number}", order, attempts, lease_us, GroupPauses(rule))

    def run(self) -> None:
        """Run it.

        Raises:
            AssertionError: a guarantee was broken.
        """
        with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as root:
            self._open(root)
            create_topic(self._log, NewTopic(TOPIC, self._partitions, Limits.WIDE, Fsync.ALWAYS), 1)
            create_topic(self._log, NewTopic(_DEAD, 2, Limits.WIDE), 2)
            self._start()
            try:
                self._send()
                actions: list[tuple[int, Callable[[], None]]] = [
                    (30, self._lease), (40, self._settle), (6, self._say_late), (6, self._extend), (4, self._fetch_deferred),
                    (6, self._send), (20, self._wait), (4, self._jump), (4, self._arm), (1, self._leave), (2, self._restart),
                ]  # fmt: skip
                weights = [weight for weight, _ in actions]
                for _ in range(self._steps):
                    self._random.choices(actions, weights)[0][1]()
                    self._check_offsets()
                self._finish()
            finally:
                self._log.crash()

    def _send(self) -> None:
        self._files.killed_in, armed = None, self._files.killed_in
        for _ in range(self._random.randint(1, 12)):
            key = b"%d" % self._random.randrange(self._keys) if self._keys and self._random.random() < 0.8 else None
            partition = self._random.randint(1, self._partitions)
            self._client.send(str(TOPIC), b"job", key=key, partition=partition)
            for group in self._groups:
                group.jobs[partition, self._ends[partition]] = Job(key)
            self._ends[partition] += 1
        self._files.killed_in = armed

    # -- workers ------------------------------------------------------------------------------------------------------

    def _lease(self) -> None:
        group = self._random.choice(self._groups)
        self._grant(group, self._random.choice((1, 1, 3, 100)), ())

    def _fetch_deferred(self) -> None:
        group = self._random.choice(self._groups)
        deferred = [place for place, job in group.jobs.items() if job.is_deferred]
        if deferred:
            partition, offset = self._random.choice(deferred)
            self._grant(group, 1, (offset,), partition)

    def _grant(self, group: WorkerGroup, count: int, deferred: tuple[int, ...], partition: int | None = None) -> int:
        """Lease messages, check them, and return how many there are."""
        partitions = (partition,) if partition is not None else ()
        token, member = self._random.getrandbits(64), self._random.randrange(9)
        grant = self._call(lambda: self._ask(group, member, token, count, partitions, deferred), may_jump=False)
        granted = 0
        self._note_poisoned(group)
        ended_count = self._count_ended(group)
        if deferred:
            group.pauses.interrupt()  # leases that it ended can have paused the group
        else:
            self._note_pauses(group, grant, ended_count)
        for each in grant.ranges:
            for offset in range(each.from_offset, each.until_offset):
                self._note_grant(group, grant.partition, offset, each.failures, token, bool(deferred))
                granted += 1
        assert granted <= count
        self.counts["leased"] += granted
        return granted

    def _ask(
        self, group: WorkerGroup, member: int, token: int, count: int, partitions: tuple[int, ...], deferred: tuple[int, ...]
    ) -> Grant:
        request = LeaseRequest(
            *(token, count, group.lease_us, "w", group.attempts, group.order, _DEAD),
            partitions=partitions,
            deferred=deferred,
            pause_rule=group.pauses.rule,
        )
        return self._broker.leases.lease(TOPIC, group.members[member % len(group.members)], request)

    def _note_grant(self, group: WorkerGroup, partition: int, offset: int, failures: int, token: int, is_deferred: bool) -> None:
        job, place = group.jobs[partition, offset], f"{group.name}, partition {partition}, message {offset}"
        assert not job.fate, f"{place} is {job.fate} and was leased again"
        assert job.is_deferred == is_deferred, f"{place} is deferred: {job.is_deferred}"
        if job.held is not None:
            assert self._is_over(job.held), f"{place} has two live leases"
            job.failures += 1
            group.pauses.failures += 1
            self.counts["ended"] += 1
        assert failures == job.failures, f"{place} has failed {job.failures} times, not {failures}"
        group.check_order(partition, offset)
        job.is_deferred = False
        job.tokens.append(token)
        job.held = HeldJob(token, self._steady_us + group.lease_us, self._wall_us + group.lease_us, self._process)

    def _count_ended(self, group: WorkerGroup) -> int:
        """Return how many leases of a group can have ended without the model's knowledge."""
        return sum(job.held is not None and self._is_over(job.held) for job in group.jobs.values())

    def _note_pauses(self, group: WorkerGroup, grant: Grant, ended_count: int) -> None:
        """Check a grant against the group's pauses, and note what it says of them."""
        pauses = group.pauses
        granted = [group.jobs[grant.partition, at] for each in grant.ranges for at in range(each.from_offset, each.until_offset)]
        trial = None if pauses.trial is None else pauses.trial.held
        is_trial_live = trial is not None and not self._is_over(trial)
        pauses.check_grant(granted, self._wall_us, is_paused=grant.is_paused, is_trial_live=is_trial_live)
        if grant.is_paused and (grant.wait_us or 0) > _TRIAL_WAIT_US:
            pauses.note_pause(grant.wait_us or 0, self._wall_us, ended_count)
            self.counts["pauses"] += 1

    def _note_poisoned(self, group: WorkerGroup) -> None:
        """Note the messages whose last lease ended, and that the log gave up for that."""
        for partition, offset in self._letters(group):
            job = group.jobs[partition, offset]
            if not job.fate:
                assert job.held is not None, f"message {offset} has a dead letter without a lease"
                assert self._is_over(job.held), f"message {offset} has a dead letter while it is leased"
                assert group.attempts is not None
                assert job.failures + 1 >= group.attempts, f"message {offset} was given up after {job.failures + 1} attempts"
                job.fate, job.held = "dead", None
                group.pauses.failures += 1

    def _letters(self, group: WorkerGroup) -> list[tuple[int, int]]:
        self._files.killed_in, armed = None, self._files.killed_in
        found: list[tuple[int, int]] = []
        for letter in self._client.poll(str(_DEAD), count=100_000):
            headers: Any = letter.headers
            if headers["hs.origin.group"] == group.name:
                found.append((headers["hs.origin.partition"], headers["hs.origin.offset"]))
        self._files.killed_in = armed
        assert len(found) == len(set(found)), f"a message has two dead letters: {found}"
        return found

    def _settle(self) -> None:
        group = self._random.choice(self._groups)
        held = [(place, job) for place, job in group.jobs.items() if job.held is not None]
        if not held:
            return
        (partition, offset), job = self._random.choice(held)
        assert job.held is not None
        steps = [LeaseStep.DONE] * 6 + [LeaseStep.FAILED] * 4 + [LeaseStep.RELEASED, LeaseStep.DEFERRED]
        step = self._random.choice(steps)
        if step is LeaseStep.FAILED and group.attempts is not None and job.failures + 1 >= group.attempts:
            step = LeaseStep.POISONED
        delay_us = self._random.choice((0, SECOND, 30 * SECOND))
        change = LeaseChange(step, job.held.token, offset, offset + 1, delay_us, "max_attempts", "no")
        settled = self._settle_one(group, partition, change)
        ended_count = self._count_ended(group)  # a process that was started again in the call can have ended some by its clock
        if settled.refused:
            assert self._is_over(job.held), f"a live lease of message {offset} was refused: {settled.refused[0].what}"
            return
        group.pauses.note_step(step, settled.paused_us, self._wall_us, ended_count)
        for _ in range(self._random.choice((0, 0, 1))):
            assert not self._say(group, partition, change), "a repeated step was refused"
        job.held = None
        self.counts[step.name.lower()] += 1
        if step in (LeaseStep.DONE, LeaseStep.POISONED):
            job.fate = "done" if step is LeaseStep.DONE else "dead"
        elif step is LeaseStep.FAILED:
            job.failures += 1
        job.is_deferred = step is LeaseStep.DEFERRED
        job.was_deferred |= job.is_deferred

    def _say(self, group: WorkerGroup, partition: int, change: LeaseChange) -> list[LeaseRefusal]:
        return self._settle_one(group, partition, change).refused

    def _settle_one(self, group: WorkerGroup, partition: int, change: LeaseChange) -> SettledLeases:
        rule = group.pauses.rule
        return self._call(
            lambda: self._broker.leases.settle_leases(TOPIC, group.name, partition, [change], dead_letter=_DEAD, pause_rule=rule)
        )

    def _say_late(self) -> None:
        """Settle with a token that another lease has followed, which is refused."""
        group = self._random.choice(self._groups)
        late = [(place, job) for place, job in group.jobs.items() if len(job.tokens) > 1 and job.held is not None]
        if late:
            (partition, offset), job = self._random.choice(late)
            step = self._random.choice((LeaseStep.DONE, LeaseStep.FAILED, LeaseStep.EXTENDED))
            change = LeaseChange(step, job.tokens[-2], offset, offset + 1, SECOND, "", "late")
            refused = self._say(group, partition, change)
            if not refused:  # it settled the message under that lease before, and repeats itself
                assert step is not LeaseStep.EXTENDED
            self.counts["late"] += 1

    def _extend(self) -> None:
        group = self._random.choice(self._groups)
        held = [(place, job) for place, job in group.jobs.items() if job.held is not None]
        if held:
            (partition, offset), job = self._random.choice(held)
            assert job.held is not None
            change = LeaseChange(LeaseStep.EXTENDED, job.held.token, offset, offset + 1, 45 * SECOND)
            before = self._steady_us
            if not self._say(group, partition, change):
                end_us = before + 45 * SECOND
                job.held = HeldJob(job.held.token, end_us, self._wall_us + 45 * SECOND, self._process)
            else:
                assert self._is_over(job.held), f"a live lease of message {offset} was not extended"

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_offsets(self) -> None:
        self._files.killed_in, armed = None, self._files.killed_in
        for group in self._groups:
            self._note_poisoned(group)
            for partition, offset in self._client.offsets(str(TOPIC), group.name).items():
                left = [at for (number, at), job in group.jobs.items() if number == partition and not job.fate]
                assert offset <= min(left, default=self._ends[partition]), f"offset {offset} of {group.name} passes {min(left)}"
        self._files.killed_in = armed

    def _finish(self) -> None:
        """Let the workers of each group finish everything, and check the ends."""
        self._files.killed_in = None
        for group in self._groups:
            for _ in range(_ENDLESS):
                self._steady_us += 120 * SECOND
                self._wall_us += 120 * SECOND
                deferred = [place for place, job in group.jobs.items() if job.is_deferred]
                partition, offset = deferred[0] if deferred else (None, 0)
                self._grant(group, 50, () if partition is None else (offset,), partition)
                for (number, at), job in group.jobs.items():
                    if job.held is not None and not self._is_over(job.held):
                        change = LeaseChange(LeaseStep.DONE, job.held.token, at, at + 1)
                        settled = self._settle_one(group, number, change)
                        ended_count = self._count_ended(group)
                        assert not settled.refused
                        group.pauses.note_step(LeaseStep.DONE, settled.paused_us, self._wall_us, ended_count)
                        job.fate, job.held = "done", None
                if all(job.fate for job in group.jobs.values()):
                    break
            left = [place for place, job in group.jobs.items() if not job.fate]
            assert not left, f"{group.name} never finished {left[:5]}"
            dead = sorted(place for place, job in group.jobs.items() if job.fate == "dead")
            assert sorted(self._letters(group)) == dead
            self._grant(group, 1, ())
            found = self._client.offsets(str(TOPIC), group.name)
            assert found == self._ends, f"{group.name} is at {found}, the partitions end at {self._ends}"
            self.counts["dead"] += len(dead)
            self.counts["messages"] += len(group.jobs)
