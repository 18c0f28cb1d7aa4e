"""Input check for compacted topics: every message must have a key."""

from __future__ import annotations

from headstream.core.codec.batch.stored.compact import find_keyless
from headstream.core.codec.buffer import BytesLike
from headstream.errors import LimitError


def check_keys(sent: BytesLike, where: str) -> None:
    """Raise LimitError if a sent batch has a message without a key."""
    number = find_keyless(sent)
    if number >= 0:
        raise LimitError(
            f"message {number} of the batch has no key, but the topic is compacted by key",
            where=where,
            advice="Set a key for every message, or disable compaction: headstream topic update TOPIC --compaction none",
        )
