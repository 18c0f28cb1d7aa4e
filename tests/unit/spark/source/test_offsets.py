from __future__ import annotations

import json

import pytest

from headstream.errors import InvalidOptionError, LogError
from headstream.spark.source.offsets import SourceOffsets, TopicPartition

A, B, C = TopicPartition("shop/orders", 1), TopicPartition("shop/orders", 2), TopicPartition("shop/returns", 1)


def test_offsets_encode_to_json_a_person_can_read() -> None:
    offsets = SourceOffsets({C: 7, B: 0, A: 100}, "3b1f", {"shop/returns": "1/2", "shop/orders": "1/1"})
    assert json.dumps(offsets.encode()) == (
        '{"shop/orders": {"1": 100, "2": 0}, "shop/returns": {"1": 7}, '
        '"identity": {"log": "3b1f", "shop/orders": "1/1", "shop/returns": "1/2"}}'
    )


def test_offsets_decode_what_they_encode_when_it_went_through_a_checkpoint() -> None:
    offsets = SourceOffsets(
        {A: 100, TopicPartition("shop/orders", 10): 3, C: 7}, "3b1f", {"shop/orders": "1/1", "shop/returns": "1/2"}
    )
    assert SourceOffsets.decode(json.loads(json.dumps(offsets.encode()))) == offsets
    assert json.dumps(SourceOffsets.decode(offsets.encode()).encode()) == json.dumps(offsets.encode())


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"shop/orders": {"1": 5}},
        {"identity": {}},
        {"identity": {"log": "x"}, "shop/orders": {"one": 5}},
        {"identity": {"log": "x"}, "shop/orders": 5},
        {"identity": "x"},
        {"identity": {"log": "x"}, "shop/orders": {"1": None}},
    ],
)
def test_offsets_decode_refuses_what_is_not_of_their_form(value: dict[str, object]) -> None:
    with pytest.raises(InvalidOptionError, match="offsets cannot be read"):
        SourceOffsets.decode(value)


def test_offsets_check_same_log_notices_a_recreated_log_and_a_recreated_topic() -> None:
    before = SourceOffsets({A: 5}, "log-1", {"shop/orders": "1/1"})
    before.check_same_log(SourceOffsets({A: 9, C: 1}, "log-1", {"shop/orders": "1/1", "shop/returns": "1/2"}))
    before.check_same_log(SourceOffsets({C: 1}, "log-1", {"shop/returns": "1/2"}))  # subscribed to something else
    with pytest.raises(LogError, match="the log was deleted and recreated"):
        before.check_same_log(SourceOffsets({A: 9}, "log-2", {"shop/orders": "1/1"}))
    with pytest.raises(LogError, match="topic shop/orders was deleted and recreated"):
        before.check_same_log(SourceOffsets({A: 9}, "log-1", {"shop/orders": "1/4"}))


def test_offsets_name_both_numbers_of_a_topic_when_it_was_made_again() -> None:
    before = SourceOffsets({TopicPartition("shop/orders", 1): 5}, "log-a", {"shop/orders": "1/4"})
    now = SourceOffsets({TopicPartition("shop/orders", 1): 2}, "log-a", {"shop/orders": "1/7"})
    with pytest.raises(LogError, match=r"topic shop/orders .* \(the topic's id is 1/7, previously 1/4\)"):
        before.check_same_log(now)
    with pytest.raises(LogError, match=r"the log .* \(log log-b, previously log-a\)"):
        before.check_same_log(SourceOffsets({}, "log-b", {}))
