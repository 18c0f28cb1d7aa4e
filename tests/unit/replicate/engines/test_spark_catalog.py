"""Locations of tables as catalogs spell them. The registration itself: integration/replicate/test_catalog.py."""

from __future__ import annotations

import pytest

from headstream.replicate.engines.spark_catalog import is_same_location


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("/data/t/a b", "file:/data/t/a b", True),
        ("/data/t", "file:///data/t/", True),
        ("/data/t%u0041", "file:/data/t%u0041", True),
        ("s3a://lake/t", "s3://lake/t/", True),
        ("s3n://lake/t", "s3a://lake/t", True),
        ("s3a://lake/t", "s3a://lake/tt", False),
        ("/data/t", "/data/t/u", False),
        ("/lake/t", "s3a://lake/t", False),
    ],
)
def test_a_location_is_the_same_in_every_spelling(first: str, second: str, same: bool) -> None:
    assert is_same_location(first, second) is same
    assert is_same_location(second, first) is same
