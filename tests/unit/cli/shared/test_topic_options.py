"""Unit tests of headstream.cli.shared.topic_options."""

from __future__ import annotations

import pytest

from headstream.cli.shared.topic_options import parse_age_us, parse_compaction_us, parse_deduplication, parse_topic_size
from headstream.errors import InvalidInputError


def test_ages_and_sizes_are_read() -> None:
    assert [parse_age_us(text) for text in ("1s", "2m", "3 h", "forever")] == [10**6, 120 * 10**6, 10800 * 10**6, None]
    assert [parse_compaction_us(text) for text in ("0s", "1d", "None")] == [0, 86400 * 10**6, None]
    assert [parse_deduplication(text) for text in ("100", " 7 ", "none")] == [100, 7, None]
    assert [parse_topic_size(text) for text in ("7", "7B", "2kb", "3 MB", "unlimited")] == [7, 7, 2000, 3_000_000, None]
    for text in ("", "1", "d", "-1d", "1.5x"):
        with pytest.raises(InvalidInputError, match="is not an age"):
            parse_age_us(text)
    for text in ("", "GB", "-1", "1XB"):
        with pytest.raises(InvalidInputError, match="is not a size"):
            parse_topic_size(text)
