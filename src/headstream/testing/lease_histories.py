"""Histories of leases: groups of workers share partitions, and are compared with a model, through kills and jumps of the clock.

    python -m headstream.testing.lease_histories --seeds 1000

One seed decides topic, groups, workers and steps: lease, settle, extend, defer, ask for deferred messages, say something late,
wait, set the clock, kill the process at any file operation. After a kill the interrupted request is repeated, as a client does.

    a lease             only of a message that is not done, and that no other worker has: its lease was settled or is over
    attempts            one more after each failure and each lease that ended; the same in every process
    key                 later messages of a key wait for the first one that is not done
    a late word         refused, and changes nothing; a repeated one is accepted, and changes nothing
    done                each message is done once, or has one dead letter, for each group
    committed offset    never behind an open message, and at the end of the partition when all are done
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from headstream.broker.broker import Broker
from headstream.client.client import Client
from headstream.log.administration import create_topic
from headstream.model.deliveries import RetryOrder
from headstream.model.groups import Member
from headstream.model.identifiers import TopicName
from headstream.model.leases import Grant, LeaseChange, LeaseRefusal, LeaseRequest, LeaseStep
from headstream.model.topology import Fsync, Limits
from headstream.testing.faulty_files import Killed
from headstream.testing.lease_model import HeldJob, Job, PageFiles, WorkerGroup
from headstream.testing.log_histories import KillableLog
from headstream.testing.seeds import naming_seed, seed_options

__all__ = ["LeaseHistory", "main", "run_history"]

_TOPIC: Final = TopicName("shop", "jobs")
_DEAD: Final = TopicName("shop", "dead")
_IDENTITY: Final = "00000000-0000-4000-8000-000000000001"
_MEMORY: Final = "/dev/shm"
_SECOND: Final = 1_000_000
_ENDLESS: Final = 500
"""Rounds in which every history comes to its end."""
_T = TypeVar("_T")


class LeaseHistory:
    """One history.

    Args:
        seed: Determines the history.
        steps: Number of steps.
    """

    def __init__(self, seed: int, steps: int = 150) -> None:
        self._random = chance = random.Random(seed)
        self._steps = steps
        self._partitions = chance.randint(1, 3)
        self._keys = chance.choice((0, 2, 5))
        self._files = PageFiles(seed)
        self._steady_us = 1_000 * _SECOND
        self._wall_us = 1_700_000_000 * _SECOND
        self._process = 0
        self._ends = dict.fromkeys(range(1, self._partitions + 1), 0)
        self._groups = [self._make_group(number) for number in range(chance.randint(1, 2))]
        self.counts: Counter[str] = Counter()

    def _make_group(self, number: int) -> WorkerGroup:
        chance = self._random
        order = chance.choice((RetryOrder.SKIP, RetryOrder.KEY))
        return WorkerGroup(f"g{number}", order, chance.choice((None, 1, 2, 4)), chance.choice((1, 10, 60)) * _SECOND)

    def run(self) -> None:
        """Run it.

        Raises:
            AssertionError: a guarantee was broken.
        """
        with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as root:
            self._root = root
            self._open()
            create_topic(self._log, _TOPIC.stream, _TOPIC.topic, self._partitions, Limits.WIDE, 1, Fsync.ALWAYS)
            create_topic(self._log, _DEAD.stream, _DEAD.topic, 2, Limits.WIDE, 2)
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

    # -- the process --------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        self._log = KillableLog(self._root, self._files, 2000)
        self._log.start_writing(_IDENTITY, 1, briefly=True)

    def _start(self) -> None:
        self._broker = Broker(self._log, clock_us=lambda: self._wall_us, monotonic=lambda: self._steady_us / _SECOND)
        self._client = Client(self._broker)
        self._process += 1
        self._note_clock()
        for group in self._groups:
            group.members = [self._join(group) for _ in range(self._random.randint(1, 4))]

    def _join(self, group: WorkerGroup) -> Member:
        return self._broker.groups.join(_TOPIC, group.name, is_shared=True)

    def _restart(self, *, may_jump: bool = True) -> None:
        self._files.revive()
        for group in self._groups:
            for member in group.members:  # the system releases the locks of a killed process
                self._broker.groups.leave(_TOPIC, member)
        self._log.crash()
        if may_jump and self._random.random() < 0.3:
            self._jump()
        self._open()
        self._start()
        self.counts["restarts"] += 1

    def _call(self, request: Callable[[], _T], *, may_jump: bool = True) -> _T:
        """Return the result of a request; if the process is killed, the next one repeats it.

        Args:
            request: The request.
            may_jump: Whether the clock can jump before it is repeated: a lease that no worker heard of can end by that.
        """
        while True:
            try:
                return request()
            except Killed:
                self.counts["kills"] += 1
                self._restart(may_jump=may_jump)

    def _arm(self) -> None:
        """Kill the process at one of its next operations."""
        self._files.killed_in = self._random.randint(1, 60)

    def _leave(self) -> None:
        group = self._random.choice(self._groups)
        self._broker.groups.leave(_TOPIC, group.members.pop())
        if not group.members or self._random.random() < 0.5:
            group.members.append(self._join(group))

    def _wait(self) -> None:
        passed_us = int(self._random.choice((0.001, 0.5, 3, 20, 90)) * _SECOND)
        self._steady_us += passed_us
        self._wall_us += passed_us
        self._note_clock()

    def _jump(self) -> None:
        self._wall_us += self._random.choice((-86_400, -30, 30, 86_400)) * _SECOND
        self._note_clock()

    def _send(self) -> None:
        self._files.killed_in, armed = None, self._files.killed_in
        for _ in range(self._random.randint(1, 12)):
            key = b"%d" % self._random.randrange(self._keys) if self._keys and self._random.random() < 0.8 else None
            partition = self._random.randint(1, self._partitions)
            self._client.send(str(_TOPIC), b"job", key=key, partition=partition)
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
            *(token, count, group.lease_us, "w", group.attempts, group.order, _DEAD), partitions=partitions, deferred=deferred
        )
        return self._broker.leases.lease(_TOPIC, group.members[member % len(group.members)], request)

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

    def _note_grant(self, group: WorkerGroup, partition: int, offset: int, failures: int, token: int, is_deferred: bool) -> None:
        job, place = group.jobs[partition, offset], f"{group.name}, partition {partition}, message {offset}"
        assert not job.fate, f"{place} is {job.fate} and was leased again"
        assert job.is_deferred == is_deferred, f"{place} is deferred: {job.is_deferred}"
        if job.held is not None:
            assert self._is_over(job.held), f"{place} has two live leases"
            job.failures += 1
            self.counts["ended"] += 1
        assert failures == job.failures, f"{place} has failed {job.failures} times, not {failures}"
        if group.order is RetryOrder.KEY and job.key is not None and not job.was_deferred:
            for earlier in range(offset):
                other = group.jobs[partition, earlier]
                is_open = not other.fate and not other.was_deferred
                assert other.key != job.key or not is_open, f"{place} overtakes {earlier} of its key"
        job.is_deferred = False
        job.tokens.append(token)
        job.held = HeldJob(token, self._steady_us + group.lease_us, self._wall_us + group.lease_us, self._process)

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
        delay_us = self._random.choice((0, _SECOND, 30 * _SECOND))
        change = LeaseChange(step, job.held.token, offset, offset + 1, delay_us, "max_attempts", "no")
        refused = self._say(group, partition, change)
        if refused:
            assert self._is_over(job.held), f"a live lease of message {offset} was refused: {refused[0].what}"
            return
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
        return self._call(lambda: self._broker.leases.settle(_TOPIC, group.name, partition, [change], dead_letter=_DEAD)).refused

    def _say_late(self) -> None:
        """Settle with a token that another lease has followed, which is refused."""
        group = self._random.choice(self._groups)
        late = [(place, job) for place, job in group.jobs.items() if len(job.tokens) > 1 and job.held is not None]
        if late:
            (partition, offset), job = self._random.choice(late)
            step = self._random.choice((LeaseStep.DONE, LeaseStep.FAILED, LeaseStep.EXTENDED))
            change = LeaseChange(step, job.tokens[-2], offset, offset + 1, _SECOND, "", "late")
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
            change = LeaseChange(LeaseStep.EXTENDED, job.held.token, offset, offset + 1, 45 * _SECOND)
            before = self._steady_us
            if not self._say(group, partition, change):
                end_us = before + 45 * _SECOND
                job.held = HeldJob(job.held.token, end_us, self._wall_us + 45 * _SECOND, self._process)
            else:
                assert self._is_over(job.held), f"a live lease of message {offset} was not extended"

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_offsets(self) -> None:
        self._files.killed_in, armed = None, self._files.killed_in
        for group in self._groups:
            self._note_poisoned(group)
            for partition, offset in self._client.offsets(str(_TOPIC), group.name).items():
                left = [at for (number, at), job in group.jobs.items() if number == partition and not job.fate]
                assert offset <= min(left, default=self._ends[partition]), f"offset {offset} of {group.name} passes {min(left)}"
        self._files.killed_in = armed

    def _finish(self) -> None:
        """Let the workers of each group finish everything, and check the ends."""
        self._files.killed_in = None
        for group in self._groups:
            for _ in range(_ENDLESS):
                self._steady_us += 120 * _SECOND
                self._wall_us += 120 * _SECOND
                deferred = [place for place, job in group.jobs.items() if job.is_deferred]
                partition, offset = deferred[0] if deferred else (None, 0)
                self._grant(group, 50, () if partition is None else (offset,), partition)
                for (number, at), job in group.jobs.items():
                    if job.held is not None and not self._is_over(job.held):
                        change = LeaseChange(LeaseStep.DONE, job.held.token, at, at + 1)
                        assert not self._say(group, number, change)
                        job.fate, job.held = "done", None
                if all(job.fate for job in group.jobs.values()):
                    break
            left = [place for place, job in group.jobs.items() if not job.fate]
            assert not left, f"{group.name} never finished {left[:5]}"
            dead = sorted(place for place, job in group.jobs.items() if job.fate == "dead")
            assert sorted(self._letters(group)) == dead
            self._grant(group, 1, ())
            found = self._client.offsets(str(_TOPIC), group.name)
            assert found == self._ends, f"{group.name} is at {found}, the partitions end at {self._ends}"
            self.counts["dead"] += len(dead)
            self.counts["messages"] += len(group.jobs)


def run_history(seed: int) -> LeaseHistory:
    """Run one history, and return it.

    Args:
        seed: Determines the history.

    Raises:
        AssertionError: a guarantee was broken; the message includes the seed.
    """
    history = LeaseHistory(seed)
    with naming_seed(seed, "headstream.testing.lease_histories"):
        history.run()
    return history


@click.command()
@seed_options
def main(seeds: int, first: int) -> None:
    """Share partitions among workers that are killed; stops at the first seed that breaks a guarantee."""
    totals: Counter[str] = Counter()
    for seed in range(first, first + seeds):
        try:
            totals += run_history(seed).counts
        except AssertionError as error:
            raise click.ClickException(str(error)) from error
    told = ", ".join(f"{count} {name}" for name, count in sorted(totals.items()))
    click.echo(f"{seeds} histories, seeds {first} to {first + seeds - 1}: all passed. {told}")


if __name__ == "__main__":
    main()
