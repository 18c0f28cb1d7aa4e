"""What connect() takes as interceptors, and those that the environment names."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

import headstream as hs
from headstream.interceptors import Interceptor, guard
from headstream.interceptors.chain import Chain


class Stamp:
    """Stamps messages, for `tests…:Stamp` in the environment."""

    def __init__(self, region: str = "eu") -> None:
        self.region = region

    def on_send(self, message: hs.Message) -> hs.Message:
        return replace(message, headers=message.headers.with_(("region", self.region)))


class Late(Interceptor):
    async def on_send(self, message: hs.Message) -> hs.Message:
        return message


@pytest.mark.parametrize(
    ("interceptors", "text"),
    [
        ("tracing", "must be a list"),
        (7, "must be a list"),
        ([object()], "one of the methods on_send"),
        ([Interceptor()], "one of the methods on_send"),
        ([Stamp], "is a class"),
        ([Late()], "Late is asynchronous"),
    ],
)
def test_connect_refuses_what_is_no_interceptor(interceptors: Any, text: str) -> None:
    with pytest.raises(hs.InvalidOptionError, match=text):
        hs.connect("memory://", interceptors=interceptors)


def test_a_hook_that_returns_no_message_is_an_error() -> None:
    class Forgetful:
        def on_send(self, message: hs.Message) -> None: ...

    with pytest.raises(hs.InterceptorError, match="the result is NoneType, not a message"):
        Chain([Forgetful()]).send(hs.Message(payload=b"x", topic="shop/orders"))


def test_on_receive_cannot_move_a_message() -> None:
    class Moving:
        def on_receive(self, message: hs.Message) -> hs.Message:
            return replace(message, offset=9)

    with pytest.raises(hs.InterceptorError, match="another topic, partition or offset"):
        Chain([Moving()]).receive(hs.Message(payload=b"x", topic="shop/orders", partition=1, offset=3, timestamp=0))


def test_a_coroutine_of_a_plain_function_is_an_error_and_not_a_blocked_loop() -> None:
    class Odd:
        def on_send(self, message: hs.Message) -> Any:
            return Late().on_send(message)

    async def main() -> None:
        async with hs.connect_async("memory://", interceptors=[Odd()]) as log:
            await log.create_topic("shop/orders")
            async with log.producer("shop/orders") as producer:
                with pytest.raises(hs.InterceptorError, match="a coroutine was returned by a plain function"):
                    await producer.send(b"x")

    asyncio.run(asyncio.wait_for(main(), 120))


def test_clients_without_interceptors_use_the_plain_classes() -> None:
    from headstream.client.consumer.consumer import Consumer
    from headstream.client.producer.producer import Producer

    with hs.connect("memory://") as log:
        log.create_topic("shop/orders")
        assert type(log.producer("shop/orders")) is Producer
        assert type(log.consumer("shop/orders")) is Consumer


class Picky(Interceptor):
    """Stamps messages with a header `wanted`, and says so."""

    def skips_send(self, headers: Any) -> bool:
        return "wanted" not in headers

    def skips_receive(self, message: hs.Message) -> bool:
        return "wanted" not in message.headers

    def on_send(self, message: hs.Message) -> hs.Message:
        return replace(message, headers=message.headers.with_(("sent", True)))

    def on_receive(self, message: hs.Message) -> hs.Message:
        return replace(message, headers=message.headers.with_(("received", True)))


def pass_through(interceptors: list[object], *headers: dict[str, Any] | None) -> list[list[str]]:
    """Return the names of the headers of messages that went through a client."""
    with hs.connect("memory://", interceptors=interceptors) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            for each in headers:
                producer.send(b"x", headers=each)
        return [list(message.headers.keys()) for message in log.poll("shop/orders")]


@pytest.mark.parametrize("interceptor", [Picky(), guard(Picky(), on_error="skip")], ids=["plain", "guarded"])
def test_an_interceptor_is_not_called_for_what_it_skips(interceptor: object) -> None:
    assert pass_through([interceptor], {"own": 1}, {"wanted": 1}) == [["own"], ["wanted", "sent", "received"]]


def test_an_interceptor_that_fails_to_tell_what_it_skips_is_called() -> None:
    assert pass_through([Picky()], None) == [["sent"]]  # `in None` raises an error; its headers are asked when it is received


def test_interceptors_beside_others_see_each_message() -> None:
    found = pass_through([Picky(), Stamp()], {"own": 1})
    assert found == [["own", "sent", "region"]]  # received by Picky alone, which skips it
