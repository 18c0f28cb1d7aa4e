"""Unit tests of headstream.core.codec.batch.stored.limit_errors."""

from __future__ import annotations

from types import ModuleType

import pytest

from headstream.errors import LimitError
from tests.support.messages.batches import header, sent
from tests.unit.core.codec.batch.stored.test_stamp import NOW, SEED, stamp

__all__ = ["stamp"]  # fixtures

LIMITS = [
    (header("", 1, b"x"), "must have 1 to 255 bytes, not 0"),
    (header("k" * 256, 1, b"x"), "must have 1 to 255 bytes, not 256"),
    (header("big", 1, bytes(65_537)), r"65537 bytes is outside the wide limits.*header 'big' of message 1"),
    (header("odd", 16, b"x"), r"kind unknown\(16\).*header 'odd' of message 1"),
    (header("odd", 0, b"x"), r"kind unknown\(0\)"),
    (header("odd", 255, b"x"), r"kind unknown\(255\)"),
]


@pytest.mark.parametrize(("block", "message"), LIMITS, ids=[message for _, message in LIMITS])
def test_stamp_names_the_header_and_the_limit_it_breaks(stamp: ModuleType, block: bytes, message: str) -> None:
    with pytest.raises(LimitError, match=message):
        stamp.stamp(sent(b"fine") + sent(b"p", block), 0, NOW, SEED, True)
