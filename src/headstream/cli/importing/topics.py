"""The requirements of a file's messages on the missing topics that an import creates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headstream.cli.importing.reading import Line
from headstream.core.codec.batch.stored.stamp import check_sent
from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.errors import HeadstreamError

__all__ = ["TopicNeeds", "plan_topics"]


@dataclass(slots=True)
class TopicNeeds:
    """The requirements on a topic.

    Args:
        highest: The highest partition in a line; None if no line has one.
        is_wide: Whether a message exceeds the limits `iggy`, but not `wide`.
    """

    highest: int | None = None
    is_wide: bool = False

    def count_partitions(self, first: int) -> int:
        """Return how many partitions the topic needs, at least 1.

        Args:
            first: The number of a topic's first partition.
        """
        return 1 if self.highest is None else max(self.highest - first + 1, 1)


def plan_topics(lines: Iterable[Line]) -> dict[str, TopicNeeds]:
    """Return the requirements of each topic so that it accepts these lines' messages; bad lines have none."""
    needs: dict[str, TopicNeeds] = {}
    for line in lines:
        message = line.message
        if message is None or message.topic is None:
            continue
        topic = needs.setdefault(message.topic, TopicNeeds())
        if message.partition is not None:
            topic.highest = max(topic.highest or 0, message.partition)
        if not topic.is_wide and not _fits(message, wide=False):
            topic.is_wide = _fits(message, wide=True)
    return needs


def _fits(message: Message, *, wide: bool) -> bool:
    """Return whether the log would accept a message, by the log's own check."""
    try:
        check_sent(encode_sent((message,)), wide)
    except HeadstreamError:
        return False
    return True
