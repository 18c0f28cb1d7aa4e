"""What a checkpoint knows of Kafka's topics, and what it says when they are others."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstream.errors import LogError
from headstream.spark.kafka import recreated_topics
from headstream.spark.kafka.recreated_topics import KnownTopic, compare_topics, forget_recreated, pattern_names


def test_compare_topics_takes_new_topics_and_says_nothing_when_nothing_has_changed(caplog: pytest.LogCaptureFixture) -> None:
    first = compare_topics({}, {"a": "1", "b": None}, "c")
    assert first == {"a": KnownTopic("1", True), "b": KnownTopic(None, True)}
    assert compare_topics(first, {"a": "1", "b": "2", "new": "3"}, "c") == {
        "a": KnownTopic("1", True),
        "b": KnownTopic("2", True),
        "new": KnownTopic("3", True),
    }
    assert caplog.messages == []


def test_compare_topics_refuses_a_topic_when_its_id_is_another() -> None:
    known = {"a": KnownTopic("1", True), "b": KnownTopic("2", False)}
    with pytest.raises(LogError, match=r"topic a was deleted and recreated .* \(id 9, previously 1; checkpoint c\)"):
        compare_topics(known, {"a": "9"}, "c")
    with pytest.raises(LogError, match="topic b was deleted and recreated"):
        compare_topics(known, {"a": "1", "b": "9"}, "c")


def test_compare_topics_names_topics_that_are_left_out_and_that_come_back(caplog: pytest.LogCaptureFixture) -> None:
    known = compare_topics({"a": KnownTopic("1", True), "b": KnownTopic("2", True)}, {"a": "1"}, "c")
    assert known == {"a": KnownTopic("1", True), "b": KnownTopic("2", False)}
    assert ["topic b is no longer read" in text for text in caplog.messages] == [True]
    caplog.clear()
    assert compare_topics(known, {"a": "1"}, "c") == known
    assert caplog.messages == []  # it has been said
    assert compare_topics(known, {"a": "1", "b": "2"}, "c")["b"].is_read
    assert ["topic b is read again" in text for text in caplog.messages] == [True]


def test_pattern_names_matches_whole_names_and_leaves_javas_own_expressions() -> None:
    assert pattern_names("shop[.].*", ["shop.a", "xshop.a", "shop"]) == ["shop.a"]
    assert pattern_names("\\p{L}+", ["shop"]) == []


def test_forget_recreated_keeps_the_ids_until_the_offsets_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that is killed in between must find the old ids: with the new ones the old offsets would count."""
    known = {"a": KnownTopic("1", True), "b": KnownTopic("2", True)}
    kept: list[dict[str, KnownTopic]] = []
    monkeypatch.setattr(recreated_topics, "_find_known", lambda frame, checkpoint: (known, {"a": "9", "b": "2"}, kept.append))

    def crash(checkpoint: Path, recreated: list[str]) -> None:
        assert (checkpoint, recreated) == (Path("c"), ["a"])
        raise MemoryError

    monkeypatch.setattr(recreated_topics, "begin_anew", crash)
    with pytest.raises(MemoryError):
        forget_recreated(None, "c")
    assert kept == []
    monkeypatch.setattr(recreated_topics, "begin_anew", lambda checkpoint, recreated: None)
    forget_recreated(None, "c")
    assert kept == [{"b": KnownTopic("2", True)}]
