"""Unit tests of headstream.cli.shared.parameters."""

from __future__ import annotations

import click
import pytest

from headstream.cli.shared.parameters import parse_states, start_parameter
from headstream.core.model.polling import PollingStrategy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7", PollingStrategy.offset(7)),
        ("First", PollingStrategy.first()),
        ("1970-01-01T00:00:01Z", PollingStrategy.timestamp(1_000_000)),
        ("1970-01-01T01:00:01.000001+01:00", PollingStrategy.timestamp(1_000_001)),
        ("1970-01-02", PollingStrategy.timestamp(86_400_000_000)),
    ],
)
def test_start_reads_offsets_names_and_times(text: str, expected: PollingStrategy) -> None:
    assert start_parameter("first").convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["next", "-1", "yesterday", "1969-12-31T23:59:59Z"])
def test_start_refuses_what_means_nothing_to_the_command(text: str) -> None:
    with pytest.raises(click.BadParameter):
        start_parameter("first").convert(text, None, None)


def test_parse_states_reads_a_list_of_states_and_all() -> None:
    assert parse_states("Available, poisoned,unknown(7)") == ("available", "poisoned", "unknown(7)")
    assert parse_states("all") is None
