"""Topics: what those must be like that a file's messages go to and that are not there yet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headstream.cli.importing.reading import Line
from headstream.codec.batch.stamp import stamp
from headstream.codec.binary import encode_sent
from headstream.errors import HeadstreamError
from headstream.model.message import Message

__all__ = ["TopicNeeds", "plan_topics"]


@dataclass(slots=True)
class TopicNeeds:
    """What a topic must have.

    Args:
        partitions: The highest partition that a line names, at least 1.
        is_wide: Whether a message is beyond what limits `iggy` allow, and within `wide`.
    """

    partitions: int = 1
    is_wide: bool = False


def plan_topics(lines: Iterable[Line]) -> dict[str, TopicNeeds]:
    """Return what each topic needs so that it takes these lines' messages; bad lines need nothing."""
    needs: dict[str, TopicNeeds] = {}
    for line in lines:
        message = line.message
        if message is None or message.topic is None:
            continue
        topic = needs.setdefault(message.topic, TopicNeeds())
        topic.partitions = max(topic.partitions, message.partition or 1)
        if not topic.is_wide and not _fits(message, wide=False):
            topic.is_wide = _fits(message, wide=True)
    return needs


def _fits(message: Message, *, wide: bool) -> bool:
    """Return whether the log would take a message, by the log's own check."""
    try:
        stamp(encode_sent((message,)), 0, 0, bytes(16), wide)
    except HeadstreamError:
        return False
    return True
