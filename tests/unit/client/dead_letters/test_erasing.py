"""Erasing: which topics have copies of what is erased."""

from __future__ import annotations

import pytest

import headstream as hs
from headstream.client.dead_letters.erasing import find_dead_letter_topics
from tests.support.crashes import fail_with


def test_find_letter_topics_passes_over_a_topic_that_is_deleted_when_it_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    with hs.connect("memory://") as log:
        for name in ("shop/carts", "shop/orders"):
            log.create_topic(name)
            log.send(name, b"a")
        with log.consumer(
            "shop/orders", group="g", on_error=hs.Retry(attempts=1), dead_letter="shop/dead", timeout_ms=0
        ) as consumer:
            consumer.run(fail_with(ValueError("no")))
        topics = hs.Client.topics

        def delete_after(self: hs.Client) -> list[hs.Topic]:
            found = topics(self)
            self.delete_topic("shop/carts")
            return found

        monkeypatch.setattr(hs.Client, "topics", delete_after)
        assert find_dead_letter_topics(log, "shop/orders") == ["shop/dead"]
