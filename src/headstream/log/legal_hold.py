"""Legal hold: a topic from which nothing is removed, by whatever way."""

from __future__ import annotations

from headstream.errors import LegalHoldError
from headstream.log.catalog.catalog import TopicRecord

__all__ = ["check_legal_hold"]


def check_legal_hold(topic: TopicRecord) -> None:
    """Return if messages of a topic may be removed.

    Args:
        topic: The topic.

    Raises:
        LegalHoldError: it is under legal hold.
    """
    if topic.options.legal_hold:
        raise LegalHoldError(
            f"the topic {str(topic.name)!r} is under legal hold: nothing is removed from it",
            advice=f"Lift the hold first, if you may: headstream topic update {topic.name} --legal-hold off",
        )
