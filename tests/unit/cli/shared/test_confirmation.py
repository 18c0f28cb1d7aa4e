"""Unit tests of headstream.cli.shared.confirmation."""

from __future__ import annotations

import pytest

import headstream as hs
from tests.support.cli_inputs import invoke
from tests.unit.cli.test_messages import url

__all__ = ["url"]  # fixtures


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("topic", "delete", "shop/orders"), "Delete topic shop/orders with 6 messages ("),
        (("topic", "purge", "shop/orders"), "Purge topic shop/orders: remove 6 messages ("),
        (("stream", "delete", "shop"), "Delete stream shop with 1 topic and 6 messages ("),
        (("partition", "delete", "shop/orders"), "Delete partition 2 of shop/orders with 3 messages ("),
    ],
)
def test_destruction_needs_yes_without_a_terminal_and_says_what_would_be_gone(
    arguments: tuple[str, ...], told: str, url: str
) -> None:
    result = invoke(*arguments, url=url, code=2, given="y\n")
    assert told in result.output
    assert "add --yes" in result.output
    with hs.connect(url) as log:
        assert log.topic("shop/orders").messages_count == 6
    invoke(*arguments, "--yes", url=url)
    with hs.connect(url) as log:
        assert sum(topic.messages_count for topic in log.topics()) < 6


def test_destruction_asks_on_a_terminal_and_only_yes_destroys(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    for answer in ("n", ""):
        result = invoke("topic", "delete", "shop/orders", url=url, code=1, given=f"{answer}\n")
        assert "Delete topic shop/orders with 6 messages (" in result.output
        assert "Nothing was changed." in result.output
    with hs.connect(url) as log:
        assert log.topic("shop/orders").messages_count == 6
    invoke("topic", "delete", "shop/orders", url=url, given="y\n")
    with hs.connect(url) as log:
        assert log.topics() == []
