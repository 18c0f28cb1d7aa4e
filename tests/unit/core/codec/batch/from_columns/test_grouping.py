"""Unit tests of headstream.core.codec.batch.from_columns.grouping."""

from __future__ import annotations

import struct
from types import ModuleType

import pytest

from headstream.errors import InvalidInputError
from tests.support import kernels
from tests.support.messages.batches import header, sent
from tests.unit.core.codec.batch.from_columns.test_keys_and_ids import MESSAGES

grouping = kernels.fixture("batch.from_columns.grouping")


def test_group_sent_keeps_the_order_within_each_group(grouping: ModuleType) -> None:
    targets = [number * 7 % 5 for number in range(len(MESSAGES))]
    data, sizes, counts = grouping.group_sent(b"".join(MESSAGES), struct.pack(f"<{len(targets)}i", *targets), 6)
    expected = [[m for m, target in zip(MESSAGES, targets, strict=True) if target == group] for group in range(6)]
    assert data == b"".join(b"".join(group) for group in expected)
    assert sizes == tuple(len(b"".join(group)) for group in expected)
    assert counts == tuple(len(group) for group in expected)


@pytest.mark.parametrize(
    ("data", "targets"), [(MESSAGES[0][:-1], [0]), (MESSAGES[0], [2]), (MESSAGES[0], []), (MESSAGES[0], [0, 0]), (b"short", [0])]
)
def test_group_sent_refuses_what_does_not_fit(grouping: ModuleType, data: bytes, targets: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="is cut short, or its group is not"):
        grouping.group_sent(data, struct.pack(f"<{len(targets)}i", *targets), 2)


def test_cut_sent_takes_what_fits_and_one_at_least(grouping: ModuleType) -> None:
    data = b"".join(MESSAGES)
    assert grouping.cut_sent(data, 1 << 40) == (len(data), len(MESSAGES))
    assert grouping.cut_sent(data, 1) == (len(MESSAGES[0]), 1)
    assert grouping.cut_sent(data, len(MESSAGES[0] + MESSAGES[1])) == (len(MESSAGES[0] + MESSAGES[1]), 2)
    assert grouping.cut_sent(data, len(data), 4, 1 << 40).messages_count == 4  # values of 1, 0, 3 and 0 bytes
    assert grouping.cut_sent(data, len(data), 1 << 40, 9).messages_count == 3  # payloads of 1, 2, 3, 4 bytes
    assert grouping.cut_sent(data, len(data), 0, 0).messages_count == 1
    assert grouping.cut_sent(b"", 5) == (0, 0)


@pytest.mark.parametrize("limits", [(), (1 << 40, 1 << 40)])
def test_cut_sent_refuses_messages_when_their_lengths_are_wrong(grouping: ModuleType, limits: tuple[int, ...]) -> None:
    for broken in (b"\1", MESSAGES[0][:-1], bytes(16) + b"\xff\xff\xff\xff" + bytes(4)):
        with pytest.raises(InvalidInputError, match="is cut short"):
            grouping.cut_sent(broken, 1 << 40, *limits)
        assert grouping.cut_sent(MESSAGES[0] + broken, 1 << 40, *limits) == (len(MESSAGES[0]), 1)


def test_cut_sent_refuses_headers_when_they_reach_beyond_their_block(grouping: ModuleType) -> None:
    for headers in (b"\xff\xff\xff\x7f" + bytes(5), header("k", 1, b"v")[:-1], header("k", 1, b"v") + b"\1"):
        with pytest.raises(InvalidInputError, match="its header block is"):
            grouping.cut_sent(sent(b"a", headers), 1 << 40, 1 << 40, 1 << 40)
