"""Unit tests of headstream.core.wire.commands.offsets."""

from __future__ import annotations

import pytest

from headstream.core.model.polling import ConsumerKind
from headstream.core.wire.commands import groups, offsets, streams
from headstream.errors import InvalidInputError

BILLING = offsets.ConsumerRef(ConsumerKind.GROUP, "billing")


def test_groups_have_no_spelling_over_http() -> None:
    with pytest.raises(InvalidInputError, match="no groups"):
        offsets.GetOffset(BILLING, 1, 1, 1).to_json()
    assert offsets.GetOffset.decode(offsets.GetOffset(BILLING, 1, 1, 1).encode()).consumer == BILLING
    with pytest.raises(InvalidInputError, match="no route for"):
        groups.JoinGroup(1, 1, 1).to_json()
    with pytest.raises(InvalidInputError, match="Use the id"):
        streams.GetStream("123").to_json()
