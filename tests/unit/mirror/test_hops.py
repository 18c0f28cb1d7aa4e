"""The header hs.mirror and sets of offsets."""

from __future__ import annotations

import random

import pytest

import headstream as hs
from headstream.mirror.hops import Hop, check_log_name, logs_passed, newest_hop, with_hop
from headstream.mirror.target import OffsetRuns


def test_hops_are_read_back_newest_first() -> None:
    headers = hs.Headers({"own": 1})
    assert (newest_hop(headers), logs_passed(headers)) == (None, [])
    one = with_hop(headers, Hop("a", "shop/orders", 3, 0, 7))
    two = with_hop(one, Hop("b", "shop/copy", 1, 5, 8))
    assert str(two["hs.mirror"].value) == "b/shop/copy/1.5/8, a"
    assert newest_hop(two) == Hop("b", "shop/copy", 1, 5, 8)
    assert logs_passed(two) == ["b", "a"]
    assert two["own"] == 1
    assert len(two.getall("hs.mirror")) == 1


def test_hops_stay_within_a_header_of_iggy_and_keep_the_newest() -> None:
    headers = hs.Headers()
    for number in range(20):
        headers = with_hop(headers, Hop(f"{number:036}", "shop/orders", 1, 0, number))
    text = str(headers["hs.mirror"].value)
    assert 200 < len(text) <= 255
    assert logs_passed(headers)[0] == f"{19:036}"


@pytest.mark.parametrize("text", ["", "a", "a/b/c/d", "a/b/c/x/1", "a/b/c/1/x", "a/b/c/1/2/3"])
def test_a_header_of_another_form_is_no_hop(text: str) -> None:
    assert newest_hop(hs.Headers([("hs.mirror", text)]) if text else hs.Headers()) is None


@pytest.mark.parametrize("name", ["", "a/b", "a,b", "a b", "x" * 65])
def test_a_log_name_that_a_hop_cannot_hold_is_refused(name: str) -> None:
    with pytest.raises(hs.InvalidOptionError):
        check_log_name(name)


def test_runs_are_a_set_of_offsets() -> None:
    randomness = random.Random(5)
    for _ in range(200):
        runs, expected = OffsetRuns(), set[int]()
        for _ in range(randomness.randrange(60)):
            offset = randomness.randrange(40)
            runs.add(offset)
            expected.add(offset)
            assert {each for each in range(-1, 42) if each in runs} == expected
        assert len(runs) == sum(1 for each in expected if each - 1 not in expected)
