"""What a topic that keeps the last message of each key takes: messages with a key."""

from __future__ import annotations

from headstream.codec.batch.compact import find_keyless
from headstream.codec.buffer import BytesLike
from headstream.errors import LimitError

__all__ = ["check_keys"]


def check_keys(sent: BytesLike, where: str) -> None:
    """Refuse a sent batch with a message without a key.

    Args:
        sent: Sent messages, back to back.
        where: The partition or topic it was sent to.

    Raises:
        LimitError: there is one.
    """
    number = find_keyless(sent)
    if number >= 0:
        raise LimitError(
            f"message {number} of the batch has no key, and the topic keeps the last message of each key",
            where=where,
            advice="Give every message a key, or take the compaction back: headstream topic update TOPIC --compaction none",
        )
