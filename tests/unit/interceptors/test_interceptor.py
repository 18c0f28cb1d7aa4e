"""Unit tests of headstream.interceptors.interceptor."""

from __future__ import annotations

import pytest

import headstream as hs
from headstream.interceptors import Auditing, Interceptor, guard
from tests.unit.interceptors.test_chain import Stamp


@pytest.mark.parametrize(
    ("policy", "topic"), [("ignore", None), ("dead_letter", None), ("skip", "shop/dead"), ("raise", "shop/dead")]
)
def test_guard_refuses_a_policy_that_is_not_whole(policy: str, topic: str | None) -> None:
    with pytest.raises(hs.InvalidOptionError):
        guard(Stamp(), on_error=policy, dead_letter=topic)


def test_guard_refuses_a_dead_letter_topic_without_a_stream() -> None:
    with pytest.raises(hs.InvalidInputError):
        guard(Stamp(), on_error="dead_letter", dead_letter="dead")


def test_auditing_is_an_interceptor_by_its_base_class() -> None:
    assert isinstance(Auditing(), Interceptor)
