"""Unit tests of headstream.log.partition.size_limits."""

from __future__ import annotations

import pytest

from headstream.errors import InvalidOptionError
from headstream.log.partition.size_limits import check_segment_bytes


@pytest.mark.parametrize("segment_bytes", [0, 4095, (2 << 30) + 1])
def test_check_segment_bytes_refuses_what_cannot_be(segment_bytes: int) -> None:
    with pytest.raises(InvalidOptionError, match=f"segment_bytes must be from 4096 to 2147483648, not {segment_bytes}"):
        check_segment_bytes(segment_bytes)
