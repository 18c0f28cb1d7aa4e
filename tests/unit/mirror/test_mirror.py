"""Mirror: a topic of a pattern that is deleted in the source ends neither the run nor the copying of the others."""

from __future__ import annotations

from typing import Any

import pytest

import headstream as hs
from headstream.mirror.mirror import Mirror, MirrorOptions


@pytest.mark.parametrize("step", ["_name_target", "_copy", "_save", "_measure_lag"])
def test_mirror_copies_the_other_topics_when_one_of_a_pattern_is_deleted(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with hs.connect("memory://") as source, hs.connect("memory://") as target:
        for name in ("carts", "orders"):
            source.create_topic(f"shop/{name}")
            source.send(f"shop/{name}", b"a")
        do = getattr(Mirror, step)

        def delete_before(self: Mirror, *given: Any) -> Any:
            if self._topics and "shop/carts" in [topic.full_name for topic in source.topics()]:
                source.delete_topic("shop/carts")
            return do(self, *given)

        monkeypatch.setattr(Mirror, step, delete_before)
        source.create_topic("shop/accounts")
        Mirror(source, target, MirrorOptions(topics=("shop/accounts", "shop/[co]*"), once=True)).run()
        assert [message.payload for message in target.poll("shop/orders")] == [b"a"]


def test_mirror_ends_when_a_named_topic_is_deleted(monkeypatch: pytest.MonkeyPatch) -> None:
    copy = Mirror._copy

    def delete_before(self: Mirror, topic: Any) -> int:
        source.delete_topic("shop/orders")
        return copy(self, topic)

    monkeypatch.setattr(Mirror, "_copy", delete_before)
    with hs.connect("memory://") as source, hs.connect("memory://") as target:
        source.create_topic("shop/orders")
        source.send("shop/orders", b"a")
        with pytest.raises(hs.TopicNotFoundError, match="shop/orders"):
            Mirror(source, target, MirrorOptions(topics=("shop/orders",), once=True)).run()
