"""Signatures of handlers: what each parameter receives, and the errors of those that cannot be filled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec
import pydantic
import pytest

import headstream as hs
from headstream.handlers.signature import Signature

if TYPE_CHECKING:
    from decimal import Decimal as Unseen


@dataclass
class Plain:
    number: int


class Struct(msgspec.Struct):
    number: int


class Model(pydantic.BaseModel):
    number: int


class Row(TypedDict):
    number: int


def receive(signature: Signature, payload: bytes | None, headers: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the arguments of a handler for a message that was sent and received."""
    with hs.connect("memory://") as log:
        log.create_topic("shop/orders", limits="wide")
        log.send("shop/orders", payload, headers=headers)
        options: dict[str, Any] = {} if signature.decode is None else {"decode": signature.decode}
        with log.consumer("shop/orders", timeout_ms=0, **options) as consumer:
            return signature.arguments(next(consumer))


@pytest.mark.parametrize(
    ("kind", "value"), [(Plain, Plain(7)), (Struct, Struct(7)), (Model, Model(number=7)), (Row, {"number": 7})]
)
def test_a_payload_parameter_receives_the_decoded_value_by_its_type(kind: Any, value: Any) -> None:
    def handle(order: Any) -> None: ...

    handle.__annotations__["order"] = kind
    assert receive(Signature(handle), b'{"number": 7}') == {"order": value}


def test_parameters_receive_headers_by_name_and_kind() -> None:
    def handle(
        attempt: hs.uint8,
        total: Annotated[float, hs.float64],
        trace: Annotated[str, hs.string, "trace.id"],
        any_kind: hs.HeaderValue,
        source: hs.string | None = None,
        missing: Annotated[int, hs.int32] = 5,
    ) -> None: ...

    sent = {"attempt": hs.uint8(3), "total": 1.5, "trace.id": "abc", "any_kind": hs.char("x")}
    found = receive(Signature(handle), b"", sent)
    assert found == {"attempt": hs.uint8(3), "total": 1.5, "trace": "abc", "any_kind": hs.char("x"), "source": None, "missing": 5}
    assert isinstance(found["attempt"], hs.uint8)
    assert type(found["total"]) is float
    assert type(found["trace"]) is str


def test_parameters_receive_the_message_its_headers_and_its_bytes() -> None:
    def handle(message: hs.ReceivedMessage, headers: hs.Headers, typed: hs.DecodedMessage[list[int]]) -> None: ...

    found = receive(Signature(handle), b"[1]", {"a": "b"})
    assert found["message"] is found["typed"]
    assert found["typed"].value == [1]
    assert found["headers"]["a"] == "b"

    def handle_bytes(body: bytes) -> None: ...

    assert receive(Signature(handle_bytes), b"\xff") == {"body": b"\xff"}


def test_a_null_payload_is_none_only_where_the_parameter_allows_it() -> None:
    def optional(order: Plain | None) -> None: ...

    def required(order: Plain) -> None: ...

    assert receive(Signature(optional), None) == {"order": None}
    with pytest.raises(hs.SerializerError, match="null payload"):
        receive(Signature(required), None)


@pytest.mark.parametrize(
    ("headers", "error"), [({}, "no header 'attempt'"), ({"attempt": 3}, "is int64, but uint8 was expected")]
)
def test_a_missing_header_or_another_kind_is_an_error_that_names_the_message(headers: dict[str, Any], error: str) -> None:
    def handle(attempt: hs.uint8) -> None: ...

    with pytest.raises(hs.HeaderError, match=error) as raised:
        receive(Signature(handle), b"", headers)
    assert raised.value.where == "shop/orders, partition 1, offset 0"


def no_annotation(order) -> None: ...  # type: ignore[no-untyped-def]
def two_payloads(order: Plain, other: Struct) -> None: ...
def scalar(attempt: int) -> None: ...
def unknown_type(order: hs.Client) -> None: ...
def star(*orders: Plain) -> None: ...
def unseen(order: Unseen) -> None: ...


@pytest.mark.parametrize(
    ("function", "what", "advice"),
    [
        (no_annotation, "the parameter has no annotation (parameter 'order' of ", "hs.ReceivedMessage"),
        (two_payloads, "'order' already receives the payload (parameter 'other'", "hs.uint8"),
        (scalar, "int is not a payload type or a header kind", "Annotated[int, hs.uint8]"),
        (unknown_type, "'Client' is not a payload type", "dataclass"),
        (star, "must have only named parameters", "Omit *"),
        (unseen, "an annotation cannot be evaluated: name 'Unseen' is not defined", "TYPE_CHECKING"),
    ],
)
def test_a_signature_that_cannot_be_filled_is_an_error_that_says_what_to_write(
    function: Callable[..., Any], what: str, advice: str
) -> None:
    with pytest.raises(hs.InvalidInputError) as raised:
        hs.App().consume("shop/orders", group="billing")(function)
    assert what in str(raised.value)
    assert advice in str(raised.value)
    assert function.__name__ in str(raised.value.where)


def test_a_produced_result_needs_a_type() -> None:
    def handle(order: Plain): ...  # type: ignore[no-untyped-def]

    with pytest.raises(hs.InvalidInputError, match="Annotate the result"):
        hs.App().consume("shop/orders", group="billing", produce="shop/invoices")(handle)
