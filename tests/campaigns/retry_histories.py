"""Histories of retries: consumers with `on_error` own partitions, and are compared with a model, through kills and clock jumps.

    python -m tests.campaigns retries --seeds 1-1000

One seed decides topic, groups, consumers and steps: poll, settle, seek, loop, close, wait, set the clock, add a partition, hide
a message for all, kill the process at any file operation. After a kill other consumers of the group begin in a new process.

    delivered           a message that is not done; its attempt is one more than its failures
    failures            each is counted once; a consumer that was killed counts as one at most, for the messages that it had
    order               later messages of the partition, or of the key, wait for one that has failed, and others go on
    a settled message   stays as it is: what a call that returned said survives every kill
    dead letter         one for each message and group that was given up, after its last attempt and no earlier
    committed offset    never behind an open message, and at the end of the partition when all are done
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from headstream.broker.broker import Broker
from headstream.client.client import Client
from headstream.core.model.deliveries import Retry, RetryOrder
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import ReceivedMessage
from headstream.core.model.topology import Fsync, Limits, NewTopic
from headstream.errors import PartitionNotFoundError
from headstream.log.administration import create_topic
from tests.campaigns.faulty_files import Killed
from tests.campaigns.lease_model import PageFiles
from tests.campaigns.log_histories import KillableLog
from tests.campaigns.retry_model import GroupMember, RetryGroup, Task

SECOND: Final = 1_000_000
_TOPIC: Final = "shop/orders"
_DEAD: Final = "shop/dead"
_IDENTITY: Final = "00000000-0000-4000-8000-000000000002"
_MEMORY: Final = "/dev/shm"
_LATE: Final = "1h"
"""A delay that ends by a jump of the clock alone."""
_SESSION_MS: Final = 3_600_000
"""So long can a consumer be silent: no history lasts longer, so that a consumer keeps what it has in hand."""
_ENDLESS: Final = 300
"""Rounds in which every history comes to its end."""


class RetryHistory:
    """One history.

    Args:
        seed: Determines the history.
        steps: Number of steps.
    """

    def __init__(self, seed: int, steps: int = 100) -> None:
        self._random = chance = random.Random(seed)
        self._files = PageFiles(seed)
        self._steps = steps
        self._wall_us = 1_700_000_000 * SECOND
        self._steady_us = 0
        self._taking: RetryGroup | None = None
        self._keys = chance.choice((0, 2, 4))
        self._ends = dict.fromkeys(range(1, chance.randint(1, 3) + 1), 0)
        self._groups = [
            RetryGroup(f"g{number}", chance.choice([*RetryOrder]), chance.choice((None, 1, 2, 3)))
            for number in range(chance.randint(1, 2))
        ]
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        """Run it.

        Raises:
            AssertionError: a guarantee was broken.
        """
        with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as root:
            self._open(root)
            create_topic(self._log, NewTopic(TopicName("shop", "orders"), len(self._ends), Limits.WIDE, Fsync.ALWAYS), 1)
            create_topic(self._log, NewTopic(TopicName("shop", "dead"), 2, Limits.WIDE), 2)
            self._start()
            try:
                self._send()
                actions: list[tuple[int, Callable[[], None]]] = [
                    (30, self._poll), (40, self._settle), (10, self._loop), (8, self._send), (4, self._close), (4, self._join),
                    (6, self._wait), (2, self._jump), (5, self._arm), (2, self._restart), (1, self._add_partition),
                    (2, self._hide), (3, self._seek),
                ]  # fmt: skip
                for _ in range(self._steps):
                    self._step(self._random.choices([each for _, each in actions], [weight for weight, _ in actions])[0])
                self._finish()
            finally:
                self._log.crash()

    # -- the process ------------------------------------------------------------------------------------------------

    def _open(self, root: str) -> None:
        self._log = KillableLog(root, self._files, 2000)
        self._log.start_writing(_IDENTITY, 1, briefly=True)

    def _start(self) -> None:
        self._broker = Broker(self._log, clock_us=self._now_us, monotonic=lambda: self._steady_us / SECOND)
        self._client = Client(self._broker)

    def _now_us(self) -> int:
        self._wall_us += 1  # no two readings of a real clock are equal
        return self._wall_us

    def _step(self, action: Callable[[], None]) -> None:
        try:
            action()
            self._check()
        except Killed:
            self.counts["kills"] += 1
            self._restart()
            self._check()

    def _restart(self) -> None:
        """End the process, as it is, and begin another one."""
        self._files.revive()
        self.counts["restarts"] += 1
        taking, self._taking = self._taking, None
        for task in () if taking is None else taking.tasks.values():
            task.most += not task.fate  # the log can know that the attempt has begun, before the loop's body got the message
        for group in self._groups:
            for member in group.members:
                member.consumer._reading.close()  # the system releases the locks of a killed process
                for message in member.in_hand:
                    self._task(group, message).most += 1
            group.members.clear()
        self._log.crash()
        self._open(self._log.root)
        self._start()

    @contextmanager
    def _unarmed(self) -> Iterator[None]:
        self._files.killed_in, armed = None, self._files.killed_in
        yield
        self._files.killed_in = armed

    def _arm(self) -> None:
        """Kill the process at one of its next operations."""
        self._files.killed_in = self._random.randint(1, 50)

    def _wait(self) -> None:
        passed_us = self._random.choice((1_000, SECOND, 20 * SECOND))
        self._wall_us += passed_us
        self._steady_us += passed_us

    def _jump(self) -> None:
        self._wall_us += self._random.choice((-86_400, -30, 7_200)) * SECOND

    def _send(self) -> None:
        with self._unarmed():
            for _ in range(self._random.randint(1, 8)):
                key = b"%d" % self._random.randrange(self._keys) if self._keys and self._random.random() < 0.8 else None
                partition = self._random.choice([*self._ends])
                self._client.send(_TOPIC, b"order", key=key, partition=partition)
                for group in self._groups:
                    group.tasks[partition, self._ends[partition]] = Task(key)
                self._ends[partition] += 1

    def _add_partition(self) -> None:
        with self._unarmed():
            if len(self._ends) < 4:
                self._client.create_partitions(_TOPIC, 1)
                self._ends[len(self._ends) + 1] = 0
                self._client = Client(self._broker)  # with producers that know it

    def _hide(self) -> None:
        """Set a message aside for all; what a consumer has fetched can still be delivered."""
        partition = self._random.choice([*self._ends])
        if self._ends[partition]:
            offset = self._random.randrange(self._ends[partition])
            for group in self._groups:
                group.tasks[partition, offset].may_be.add("gone")
            with self._unarmed():
                self._client.set_state(_TOPIC, partition, offset, self._random.choice(("poisoned", "marked_for_deletion")))

    # -- consumers ----------------------------------------------------------------------------------------------------

    def _task(self, group: RetryGroup, message: ReceivedMessage) -> Task:
        return group.tasks[message.partition, message.offset]

    def _join(self) -> None:
        group = self._random.choice(self._groups)
        if len(group.members) < 2:
            self._begin(group)

    def _begin(self, group: RetryGroup) -> GroupMember:
        """Let a consumer of a group begin."""
        retry = Retry(group.attempts, "0s", _LATE, group.order)
        consumer = self._client.consumer(
            _TOPIC, group=group.name, on_error=retry, dead_letter=_DEAD, timeout_ms=0, session_timeout_ms=_SESSION_MS
        )
        group.members.append(GroupMember(consumer))
        return group.members[-1]

    def _any_member(self) -> tuple[RetryGroup, GroupMember]:
        group = self._random.choice(self._groups)
        if not group.members:
            self._begin(group)
        return group, self._random.choice(group.members)

    def _poll(self) -> None:
        group, member = self._any_member()
        for message in member.consumer.poll(self._random.choice((1, 1, 3, 20))):
            self._note_delivery(group, member, message)

    def _note_delivery(self, group: RetryGroup, member: GroupMember, message: ReceivedMessage) -> None:
        place, task = (message.partition, message.offset), self._task(group, message)
        assert not task.fate, f"{group.name}: message {place} is {task.fate} and was delivered again"
        assert all(place != (other.partition, other.offset) for each in group.members for other in each.in_hand), f"{place} twice"
        failures = message.attempt - 1
        assert task.least <= failures <= task.most, (
            f"{group.name}: {place} has failed {task.least} to {task.most}, not {failures}"
        )
        task.least = task.most = failures
        task.may_be -= {"done", "dead"}
        group.check_order(*place, {(other.partition, other.offset) for each in group.members for other in each.in_hand})
        member.in_hand.append(message)
        self.counts["delivered"] += 1

    def _settle(self) -> None:
        group, member = self._any_member()
        if member.in_hand:
            self._settle_one(group, member, self._random.choice(member.in_hand))

    def _settle_one(self, group: RetryGroup, member: GroupMember, message: ReceivedMessage) -> None:
        task, step = self._task(group, message), self._random.choice(("ack", "ack", "retry", "retry", "late", "reject"))
        is_last = group.attempts is not None and task.most + 1 >= group.attempts
        outcome = "done" if step == "ack" else "dead" if step == "reject" or is_last else ""
        if outcome:
            task.may_be.add(outcome)
        if step == "ack":
            member.consumer.ack(message)
        elif step == "reject":
            member.consumer.reject(message, reason="no")
        else:
            member.consumer.retry(message, delay=_LATE if step == "late" else None, reason="no")
        member.in_hand.remove(message)
        task.fate = outcome
        if step != "ack":
            task.least, task.most = task.least + 1, task.most + 1
        self.counts[outcome or step] += 1

    def _seek(self) -> None:
        """Set a partition back to a message that is done, and settle one of its messages in the request that records this."""
        group, member = self._any_member()
        starts = [(partition, at) for partition in sorted(member.consumer.positions) for at in group.find_starts(partition)]
        if not starts:
            return
        partition, start = self._random.choice(starts)
        with self._unarmed(), suppress(PartitionNotFoundError):  # the partition passes to another member
            member.consumer.seek(partition, start)
            group.begin_again(partition, start)
            member.in_hand = [message for message in member.in_hand if message.partition != partition]
            message = self._receive_from(partition, group, member)
            if message is not None:
                self._settle_one(group, member, message)
                self.counts["seeks"] += 1
                if self._random.random() < 0.5:
                    self._end(group, member)

    def _receive_from(self, partition: int, group: RetryGroup, member: GroupMember) -> ReceivedMessage | None:
        """Poll until a member has messages of a partition, and return one; None if the partition passes to another member."""
        while partition in member.consumer.positions:
            for message in member.consumer.poll(20):
                self._note_delivery(group, member, message)
            if found := [message for message in member.in_hand if message.partition == partition]:
                return self._random.choice(found)
        return None

    def _loop(self) -> None:
        """Process messages by the function of run(), which fails for some."""
        group, member = self._any_member()
        if member.in_hand:
            return
        left = self._random.randint(1, 6)
        self._taking = group
        for message in member.consumer:
            self._taking = None
            self._note_delivery(group, member, message)
            task = self._task(group, message)
            is_last = group.attempts is not None and task.most + 1 >= group.attempts
            has_failed = self._random.random() < 0.4
            outcome = "" if has_failed and not is_last else "dead" if has_failed else "done"
            if outcome:
                task.may_be.add(outcome)
            if has_failed:
                member.consumer.retry(message, delay=_LATE if self._random.random() < 0.3 else None, reason="no")
            else:
                member.consumer.ack(message)
            member.in_hand.remove(message)
            task.fate = outcome
            if has_failed:
                task.least, task.most = task.least + 1, task.most + 1
            left -= 1
            if not left:
                break
            self._taking = group
        self._taking = None

    def _close(self) -> None:
        self._end(*self._any_member())

    def _end(self, group: RetryGroup, member: GroupMember) -> None:
        for message in member.in_hand:  # an attempt without an end is a failure, unless it is released
            self._task(group, message).most += 1
        member.consumer.close(commit=self._random.random() < 0.5)
        group.members.remove(member)

    # -- checks -------------------------------------------------------------------------------------------------------

    def _letters(self) -> dict[str, list[tuple[int, int]]]:
        found: dict[str, list[tuple[int, int]]] = {group.name: [] for group in self._groups}
        for partition in (1, 2):
            for letter in self._client.poll(_DEAD, partition, count=100_000):
                headers: Any = letter.headers
                found[str(headers["hs.origin.group"])].append((headers["hs.origin.partition"], headers["hs.origin.offset"]))
        return found

    def _check(self) -> None:
        with self._unarmed():
            letters = self._letters()
            for group in self._groups:
                copied = Counter(letters[group.name])
                copied.subtract({place: task.letters for place, task in group.tasks.items()})
                assert {*copied.values()} <= {0, 1}, f"{group.name}: a message has two dead letters: {copied}"
                self._check_letters(group, {*+copied})
                for partition, offset in self._client.offsets(_TOPIC, group.name).items():
                    left = [
                        at for (number, at), task in group.tasks.items() if number == partition and not (task.fate or task.may_be)
                    ]
                    assert offset <= min(left, default=self._ends[partition]), f"{group.name}: {offset} passes {min(left)}"

    def _check_letters(self, group: RetryGroup, copied: set[tuple[int, int]]) -> None:
        for place, task in group.tasks.items():
            if task.fate == "dead":
                assert place in copied or "gone" in task.may_be, f"{group.name}: {place} was given up and has no letter"
            elif place in copied:
                abandoned = group.attempts is not None and task.most >= group.attempts
                assert task.fate != "done", f"{group.name}: {place} is done and has a letter"
                assert abandoned or "dead" in task.may_be, f"{group.name}: {place} has a letter after {task.most} failures"
                task.fate = "dead"

    def _finish(self) -> None:
        """Let the consumers of each group finish everything, and check the ends."""
        self._restart()
        for group in self._groups:
            for _ in range(_ENDLESS):
                self._wall_us += 7_200 * SECOND
                member = self._begin(group)
                for message in member.consumer:
                    self._note_delivery(group, member, message)
                    member.consumer.ack(message)
                    member.in_hand.remove(message)
                    self._task(group, message).fate = "done"
                member.consumer.close()
                group.members.clear()
                self._check()
                found = {partition: end for partition, end in self._client.offsets(_TOPIC, group.name).items() if end}
                if found == {partition: end for partition, end in self._ends.items() if end}:
                    break
            else:
                raise AssertionError(f"{group.name} never finished: it is at {found}, the partitions end at {self._ends}")
            open_tasks = [place for place, task in group.tasks.items() if not (task.fate or task.may_be)]
            assert not open_tasks, f"{group.name} has passed over {open_tasks}"
            self.counts["messages"] += len(group.tasks)
