"""The model of a history of retries: each message of a group, its state, and the member that holds it."""

from __future__ import annotations

from dataclasses import dataclass, field

from headstream.client.consumer.consumer import Consumer
from headstream.core.model.deliveries import RetryOrder
from headstream.core.model.message import ReceivedMessage


@dataclass(slots=True)
class Task:
    """One message of one group, as the model knows it.

    Args:
        least: How often it has failed at least.
        most: How often at most: a kill leaves unknown whether an attempt was counted.
        fate: `done`, `dead` or `gone` (hidden for all), or empty while it is open.
        may_be: Fates that it can have had since a call was interrupted.
        letters: How many dead letters it has from before the partition was set back.
    """

    key: bytes | None
    least: int = 0
    most: int = 0
    fate: str = ""
    may_be: set[str] = field(default_factory=set)
    letters: int = 0


@dataclass(slots=True)
class GroupMember:
    """A consumer, and the messages that it has handed out."""

    consumer: Consumer
    in_hand: list[ReceivedMessage] = field(default_factory=list)


@dataclass(slots=True)
class RetryGroup:
    """A group: its policy, its consumers, and its messages by partition and offset."""

    name: str
    order: RetryOrder
    attempts: int | None
    members: list[GroupMember] = field(default_factory=list)
    tasks: dict[tuple[int, int], Task] = field(default_factory=dict)

    def check_order(self, partition: int, offset: int, in_hand: set[tuple[int, int]]) -> None:
        """Check that a message overtakes no message that has certainly failed, and that no consumer has in hand."""
        if self.order is RetryOrder.SKIP:
            return
        key = self.tasks[partition, offset].key
        for earlier in range(offset):
            other = self.tasks[partition, earlier]
            is_open = not other.fate and not other.may_be and other.least and (partition, earlier) not in in_hand
            is_before = self.order is RetryOrder.PARTITION or (key is not None and key == other.key)
            assert not (is_open and is_before), f"message {offset} overtakes {earlier}, which has failed"

    def find_starts(self, partition: int) -> range:
        """Return the offsets to which a partition can be set back: no message before is open, none from there on is uncertain."""
        tasks = [(offset, task) for (number, offset), task in self.tasks.items() if number == partition]
        first_open = min((offset for offset, task in tasks if not task.fate), default=len(tasks))
        uncertain = (offset for offset, task in tasks if task.fate == "gone" or task.may_be - {task.fate})
        return range(max(uncertain, default=-1) + 1, first_open)

    def begin_again(self, partition: int, start: int) -> None:
        """Open all messages of a partition from an offset on, which have then never failed."""
        for (number, offset), task in self.tasks.items():
            if number == partition and offset >= start:
                self.tasks[number, offset] = Task(task.key, letters=task.letters + (task.fate == "dead"))
