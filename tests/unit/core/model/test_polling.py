"""Unit tests of headstream.core.model.polling."""

from __future__ import annotations

from typing import Any

import pytest

from headstream.core.model.polling import ConsumerKind, OffsetOwner, PollingKind, PollingStrategy
from headstream.errors import InvalidInputError


@pytest.mark.parametrize(
    ("spec", "expected"),
    [(5, (PollingKind.OFFSET, 5)), ("5", (PollingKind.OFFSET, 5)), (" First ", (PollingKind.FIRST, 0)),
     ("last", (PollingKind.LAST, 0)), ("next", (PollingKind.NEXT, 0))],
)  # fmt: skip
def test_places_to_poll_from_are_numbers_or_names(spec: Any, expected: tuple[PollingKind, int]) -> None:
    strategy = PollingStrategy.parse(spec)
    assert (strategy.kind, strategy.value) == expected


@pytest.mark.parametrize("spec", ["", "middle", "-5", "1.5", -1, 1 << 64])
def test_other_places_to_poll_from_are_refused(spec: Any) -> None:
    with pytest.raises(InvalidInputError):
        PollingStrategy.parse(spec)


def test_consumers_are_groups_or_single_ones() -> None:
    assert OffsetOwner.group("g") == OffsetOwner(ConsumerKind.GROUP, "g") != OffsetOwner.named("g")
    assert str(OffsetOwner.group("g")) == "group 'g'"
    with pytest.raises(InvalidInputError, match="a group name must have 1 to 255 bytes"):
        OffsetOwner.group("")
