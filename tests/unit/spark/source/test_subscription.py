from __future__ import annotations

import pytest

from headstream.core.model.identifiers import TopicName
from headstream.errors import InvalidOptionError
from headstream.spark.source.offsets import TopicPartition
from headstream.spark.source.subscription import parse_subscription

A, B, C = TopicPartition("shop/orders", 1), TopicPartition("shop/orders", 2), TopicPartition("shop/returns", 1)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"subscribe": "shop/orders"}, {A, B}),
        ({"subscribe": " shop/returns , shop/orders"}, {A, B, C}),
        ({"subscribepattern": "shop/.*"}, {A, B, C}),
        ({"subscribepattern": "shop/orde"}, set()),  # the whole name has to match
        ({"subscribepattern": "(shop|store)/(returns|exchanges)"}, {C}),
        ({"assign": '{"shop/orders": [2], "shop/returns": [1, 7]}'}, {B, C}),
    ],
)
def test_subscription_has_what_the_option_names(given: dict[str, str], read: set[TopicPartition]) -> None:
    subscription = parse_subscription(given)
    assert {place for place in (A, B, C) if subscription.has(place)} == read


def test_subscription_keeps_the_order_of_its_topics() -> None:
    topics = (TopicName("shop", "returns"), TopicName("shop", "orders"))
    assert parse_subscription({"subscribe": "shop/returns,shop/orders"}).topics == topics
    assert parse_subscription({"assign": '{"shop/returns": [1], "shop/orders": [1]}'}).topics == topics
    assert parse_subscription({"subscribepattern": "x"}).topics is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "option subscribe is missing"),
        ({"subscribe": " , "}, "names no topic"),
        ({"subscribe": "orders"}, "subscribe: 'orders' is not a topic"),
        ({"subscribe": "a/b,a/b"}, "names a topic twice"),
        ({"subscribe": "a/b", "assign": "{}"}, "subscribe and assign both name topics"),
        ({"subscribe": "a/b", "subscribepattern": "a.*"}, "subscribe and subscribePattern both name"),
        ({"subscribepattern": "shop/(orders"}, "is not a valid regular expression"),
        ({"assign": "shop/orders"}, "assign cannot be read"),
        ({"assign": "{}"}, "assign cannot be read"),
        ({"assign": '{"shop/orders": 1}'}, "assign cannot be read"),
        ({"assign": '{"shop/orders": [0]}'}, "assign cannot be read"),
        ({"assign": '{"shop/orders": ["1"]}'}, "assign cannot be read"),
        ({"assign": '{"orders": [1]}'}, "assign: 'orders' is not a topic"),
    ],
)
def test_subscription_names_the_option_when_it_cannot_be_used(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOptionError) as raised:
        parse_subscription(given)
    assert said in str(raised.value)
