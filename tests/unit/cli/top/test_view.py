"""Unit tests of headstream.cli.top.view."""

from __future__ import annotations

from headstream.cli.top.rates import compare
from headstream.cli.top.view import format_count, format_seconds, format_size
from headstream.core.model.topology import Partition
from tests.unit.cli.top.test_rates import group, sample, show, topic


def test_screen_shows_as_many_rows_as_it_has_lines() -> None:
    topics = [topic(f"t{n:03}", Partition(1, 0, 1000 - n, 10)) for n in range(200)]
    overview = compare(sample(0), sample(1, *topics, groups=(group(0, 12_345_678, members=3),)))
    text = show(overview, 24)
    assert len(text.splitlines()) == 24
    assert "Topics by rate (13 of 200)" in text
    assert "shop/t000" in text
    assert "12.3 M" in text
    assert "not shrinking" in text
    assert "Groups by lag" in text
    assert "shop/t199" in show(overview)
    assert "Groups of 100 topics by lag" in show(overview, 24, watched_count=100)


def test_format_count_shows_large_numbers_in_few_characters() -> None:
    assert [format_count(value) for value in (0, 0.25, 9, 9999, 12_345, 4_560_000, 999_900)] == [
        "0",
        "0.2",
        "9",
        "9,999",
        "12.3 k",
        "4.56 M",
        "1 M",
    ]
    assert [format_size(value) for value in (0, 999, 1500, 4.56e6, 1.1e9)] == ["0 B", "999 B", "1.5 kB", "4.56 MB", "1.1 GB"]
    assert [format_seconds(value) for value in (0.4, 90, 200, 7300, 3e5)] == ["0 s", "90 s", "3 min", "2 h", "3 d"]
