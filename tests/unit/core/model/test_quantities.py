from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headstream.core.model.quantities import DURATION_UNITS_US, SIZE_UNITS, parse_duration_us, parse_size_bytes
from headstream.errors import InvalidInputError


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ("0", 0), ("0s", 0), ("500ms", 500_000), ("500 us", 500), ("60s", 60_000_000), ("1.5 h", 5_400_000_000),
        ("2 days 4 hours", 187_200_000_000), ("2d4h", 187_200_000_000), ("5m", 300_000_000), ("5 Min", 300_000_000),
        ("1M", 2_630_016_000_000), ("1 year", 31_557_600_000_000), ("1500 ns", 2), ("2500 ns", 2), (" 7d ", 604_800_000_000),
        (timedelta(hours=1), 3_600_000_000), ("1000000us", 1_000_000), ("1000ms", 1_000_000), ("1w", 604_800_000_000),
        ("9223372036854s 775807us", (1 << 63) - 1),
    ],
)  # fmt: skip
def test_parse_duration_us_reads_what_people_write(spelled: str, expected: int) -> None:
    assert parse_duration_us(spelled) == expected


@pytest.mark.parametrize(
    "spelled",
    [
        "",
        " ",
        "5",
        "s",
        "-5s",
        "5 parsecs",
        "5s 3",
        "3 5s",
        "1e3s",
        "5s,",
        "9" * 18 + "y",
        "9223372036854s 775808us",
        5,
        True,
        None,
        timedelta(-1),
    ],
)
def test_parse_duration_us_refuses_the_rest(spelled: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"is not a duration\. Write 500ms"):
        parse_duration_us(spelled)


def test_parse_duration_us_gives_plain_numbers_the_unit_of_the_caller() -> None:
    assert parse_duration_us("5", plain_unit="ms") == parse_duration_us(5, plain_unit="ms") == 5_000
    assert parse_duration_us(" 5 ", plain_unit="ms") == 5_000
    assert parse_duration_us("5s", plain_unit="ms") == 5_000_000


@pytest.mark.parametrize(
    ("spelled", "expected"),
    [
        ("0", 0), ("4096", 4096), (4096, 4096), ("1kb", 1000), ("1 KiB", 1024), ("10GiB", 10 << 30), ("10GB", 10**10),
        ("1.5 KB", 1500), ("16 EB", 16 * 10**18), ("5b", 5), ("512m", 512 << 20), ("2G", 2 << 30),
        ("18446744073709551.615 KB", (1 << 64) - 1),
    ],
)  # fmt: skip
def test_parse_size_bytes_reads_what_people_write(spelled: str, expected: int) -> None:
    assert parse_size_bytes(spelled) == expected


@pytest.mark.parametrize("spelled", ["", "-1", "1 X", "1kk", "GB", "20 EB", "16 EiB", "1 GB 5", -5, 1.5, None, True])
def test_parse_size_bytes_refuses_the_rest(spelled: Any) -> None:
    with pytest.raises(InvalidInputError, match="is not a size"):
        parse_size_bytes(spelled)


def test_duration_units_are_listed_from_the_shortest_to_the_longest() -> None:
    assert DURATION_UNITS_US == {
        "us": 1, "ms": 1000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000, "w": 604_800_000_000,
        "M": 2_630_016_000_000, "y": 31_557_600_000_000,
    }  # fmt: skip
    assert list(DURATION_UNITS_US.values()) == sorted(DURATION_UNITS_US.values())
    assert list(SIZE_UNITS) == ["B", "KB", "KiB", "MB", "MiB", "GB", "GiB", "TB", "TiB", "PB", "PiB", "EB", "EiB"]
