"""Shapes of fields that only Headstream's own commands have.

numbers     count u32 | number u64 ...
by_number   count u32 | (number u32 | value u64) ...          in JSON an object whose keys are the numbers
changes     count u8 | (name text8 | has u8 [| value u64, or text32 if has is 2]) ...
maybe_text  has u8 [| text32]
consumer    kind u8 | identifier                              in JSON and URLs `consumer:NAME` or `group:NAME`
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

from headstream.core.codec import json
from headstream.core.codec.binary import decode_polled, decode_sent, encode_polled, encode_sent
from headstream.core.codec.buffer import BytesLike, Reader, Writer
from headstream.core.codec.json_text import decode_json, encode_json
from headstream.core.model.message import parse_state, state_name
from headstream.core.model.polling import ConsumerKind
from headstream.core.model.topology import DEFAULT_DELETION_GRACE_US
from headstream.core.wire.commands.offsets import CONSUMER, ConsumerRef
from headstream.core.wire.shapes import (
    IDENTIFIER,
    U64,
    Default,
    FlagShape,
    Json,
    RestShape,
    Shape,
    TextShape,
    Unsigned,
    invalid_value,
)
from headstream.errors import DecodeError, InvalidInputError

_U64: Final = Unsigned(8)
_IS_TEXT: Final = 2


class TrailingNumber(Unsigned):
    """A number at the end of a command that older clients do not send: 0 if it is missing."""

    def pull(self, reader: Reader, what: str) -> int:
        return super().pull(reader, what) if reader.remaining >= self.size else 0


class TrailingFlag(FlagShape):
    """A flag at the end of a command that older clients do not send: false if it is missing."""

    def pull(self, reader: Reader, what: str) -> bool:
        return super().pull(reader, what) if reader.remaining else False


class TrailingText(TextShape):
    """A string at the end of a command that older clients do not send: empty if it is missing."""

    def pull(self, reader: Reader, what: str) -> str:
        return super().pull(reader, what) if reader.remaining else ""


class NumbersShape(Shape):
    """count u32 | number u64 ..."""

    def push(self, writer: Writer, value: tuple[int, ...]) -> None:
        writer.push_u32(len(value))
        for number in value:
            writer.push_u64(number)

    def pull(self, reader: Reader, what: str) -> tuple[int, ...]:
        inner = Reader(reader.pull_view(8 * reader.pull_u32(f"the number of {what}"), what))
        return tuple(inner.pull_u64(what) for _ in range(inner.remaining // 8))

    def to_json_value(self, value: tuple[int, ...]) -> list[int]:
        return list(value)

    def from_json_value(self, json_value: Any, where: str) -> tuple[int, ...]:
        if not isinstance(json_value, list):
            raise invalid_value(json_value, "a list of numbers", where)
        return tuple(_U64.from_json_value(item, f"{where}[{number}]") for number, item in enumerate(json_value))


class ByNumberShape(Shape):
    """count u32 | (number u32 | value u64) ...; in JSON an object whose keys are the numbers."""

    def push(self, writer: Writer, value: Mapping[int, int]) -> None:
        writer.push_u32(len(value))
        for number, item in sorted(value.items()):
            writer.push_u32(number)
            writer.push_u64(item)

    def pull(self, reader: Reader, what: str) -> dict[int, int]:
        inner = Reader(reader.pull_view(12 * reader.pull_u32(f"the number of {what}"), what))
        return {inner.pull_u32(what): inner.pull_u64(what) for _ in range(inner.remaining // 12)}

    def to_json_value(self, value: Mapping[int, int]) -> dict[str, int]:
        return {str(number): item for number, item in sorted(value.items())}

    def from_json_value(self, json_value: Any, where: str) -> dict[int, int]:
        if not isinstance(json_value, dict):
            raise invalid_value(json_value, "an object keyed by numbers", where)
        number = Unsigned(4)
        return {
            number.from_url_text(name, where): _U64.from_json_value(item, f"{where}.{name}") for name, item in json_value.items()
        }


class ChangesShape(Shape):
    """count u8 | (name text8 | has u8 [| value]) ...; has is 0 for no value, 1 for a u64, _IS_TEXT for a text32."""

    def push(self, writer: Writer, value: Mapping[str, int | str | None]) -> None:
        writer.push_u8(len(value))
        for name, item in sorted(value.items()):
            writer.push_text8(name)
            if isinstance(item, str):
                writer.push_u8(_IS_TEXT)
                writer.push_text32(item)
                continue
            writer.push_u8(item is not None)
            if item is not None:
                writer.push_u64(item)

    def pull(self, reader: Reader, what: str) -> dict[str, int | str | None]:
        found: dict[str, int | str | None] = {}
        for _ in range(reader.pull_u8(f"the number of {what}")):
            name = reader.pull_text8("an option name")
            has = reader.pull_u8(f"the presence flag of {name}")
            found[name] = reader.pull_text32(name) if has == _IS_TEXT else reader.pull_u64(name) if has == 1 else None
        return found

    def to_json_value(self, value: Mapping[str, int | str | None]) -> dict[str, int | str | None]:
        return dict(value)

    def from_json_value(self, json_value: Any, where: str) -> dict[str, int | str | None]:
        if not isinstance(json_value, dict):
            raise invalid_value(json_value, "an object of options", where)
        return {
            name: item if item is None or isinstance(item, str) else _U64.from_json_value(item, f"{where}.{name}")
            for name, item in json_value.items()
        }


class MaybeNumberShape(Shape):
    """has u8 | u64."""

    is_optional = True

    def push(self, writer: Writer, value: int | None) -> None:
        writer.push_u8(value is not None)
        writer.push_u64(value or 0)

    def pull(self, reader: Reader, what: str) -> int | None:
        has, value = reader.pull_u8(f"the presence flag of {what}"), reader.pull_u64(what)
        return value if has == 1 else None

    def from_json_value(self, json_value: Any, where: str) -> int | None:
        return None if json_value is None else _U64.from_json_value(json_value, where)


class MaybeTextShape(Shape):
    """has u8 [| text32]; None if the field is missing at the end of an older client's command."""

    is_optional = True

    def push(self, writer: Writer, value: str | None) -> None:
        writer.push_u8(value is not None)
        if value is not None:
            writer.push_text32(value)

    def pull(self, reader: Reader, what: str) -> str | None:
        has = reader.pull_u8(f"the presence flag of {what}") if reader.remaining else 0
        return reader.pull_text32(what) if has == 1 else None

    def from_json_value(self, json_value: Any, where: str) -> str | None:
        if json_value is not None and not isinstance(json_value, str):
            raise invalid_value(json_value, "a string or null", where)
        return json_value


class TrailingLimit(MaybeNumberShape):
    """A number or None at the end of a reply that older servers do not send: None if it is missing."""

    def pull(self, reader: Reader, what: str) -> int | None:
        return super().pull(reader, what) if reader.remaining else None


class LimitedTimeShape(MaybeNumberShape):
    """A number, or None, which is `forever` in JSON; null and a missing member mean the default, as for older clients."""

    def __init__(self, default: int) -> None:
        self._default = default

    def pull(self, reader: Reader, what: str) -> int | None:
        return super().pull(reader, what) if reader.remaining else self._default

    def to_json_value(self, value: int | None) -> int | str:
        return "forever" if value is None else value

    def from_json_value(self, json_value: Any, where: str) -> int | None:
        return None if json_value == "forever" else _U64.from_json_value(json_value, where)


class StatesShape(Shape):
    """count u8 | state u8 ...; an empty list selects available messages only."""

    is_optional = True

    def push(self, writer: Writer, value: tuple[int, ...]) -> None:
        writer.push_u8(len(value))
        for state in value:
            writer.push_u8(state)

    def pull(self, reader: Reader, what: str) -> tuple[int, ...]:
        return tuple(reader.pull_bytes(reader.pull_u8(f"the number of {what}"), what))

    def to_json_value(self, value: tuple[int, ...]) -> list[str]:
        return [state_name(state) for state in value]

    def from_json_value(self, json_value: Any, where: str) -> tuple[int, ...]:
        if json_value is None:
            return ()
        if not isinstance(json_value, list):
            raise invalid_value(json_value, "a list of states", where)
        return tuple(STATE.from_json_value(item, f"{where}[{number}]") for number, item in enumerate(json_value))

    def to_url_text(self, value: tuple[int, ...]) -> str:
        return ",".join(map(state_name, value))

    def from_url_text(self, text: str, where: str) -> tuple[int, ...]:
        return tuple(STATE.from_json_value(name, where) for name in text.split(",")) if text else ()


class StateShape(Shape):
    """One byte; in JSON a name."""

    def push(self, writer: Writer, value: int) -> None:
        writer.push_u8(value)

    def pull(self, reader: Reader, what: str) -> int:
        return reader.pull_u8(what)

    def to_json_value(self, value: int) -> str:
        return state_name(value)

    def from_json_value(self, json_value: Any, where: str) -> int:
        try:
            return parse_state(json_value)
        except (InvalidInputError, AttributeError):
            raise invalid_value(json_value, "a state name", where) from None


class Choice(Shape):
    """A member of a string enumeration, given by name."""

    def __init__(self, kind: type[enum.StrEnum]) -> None:
        self.kind = kind

    def push(self, writer: Writer, value: str) -> None:
        writer.push_text8(value)

    def pull(self, reader: Reader, what: str) -> enum.StrEnum:
        at = reader.at
        try:
            return self.kind(reader.pull_text8(what))
        except ValueError as error:
            if isinstance(error, DecodeError):
                raise
            raise DecodeError(f"{what} must be one of {', '.join(self.kind)}", at) from None

    def to_json_value(self, value: Any) -> str:
        return str(value)

    def from_json_value(self, json_value: Any, where: str) -> enum.StrEnum:
        if not isinstance(json_value, str) or json_value not in list(self.kind):
            raise invalid_value(json_value, f"one of {', '.join(self.kind)}", where)
        return self.kind(json_value)


class WideFlagShape(FlagShape):
    """A flag of four bytes, because a body must not have exactly one byte."""

    def push(self, writer: Writer, value: bool) -> None:
        writer.push_u32(int(value))

    def pull(self, reader: Reader, what: str) -> bool:
        return reader.pull_u32(what) == 1


class AnyConsumerShape(Shape):
    """A consumer or a group; in JSON `consumer:NAME` or `group:NAME`."""

    def push(self, writer: Writer, value: ConsumerRef) -> None:
        CONSUMER.push(writer, value)

    def pull(self, reader: Reader, what: str) -> ConsumerRef:
        return CONSUMER.pull(reader, what)

    def to_json_value(self, value: ConsumerRef) -> str:
        return f"{value.kind.name.lower()}:{IDENTIFIER.to_url_text(value.id)}"

    def to_url_text(self, value: ConsumerRef) -> str:
        return self.to_json_value(value)

    def from_json_value(self, json_value: Any, where: str) -> ConsumerRef:
        kind, colon, name = json_value.partition(":") if isinstance(json_value, str) else ("", "", "")
        if not colon or kind not in ("consumer", "group"):
            raise invalid_value(json_value, "consumer:NAME or group:NAME", where)
        return ConsumerRef(ConsumerKind[kind.upper()], IDENTIFIER.from_url_text(name, where))


class SentShape(RestShape):
    """Sent messages up to the end of the command; in JSON the `messages` of a send."""

    def to_json_value(self, value: BytesLike) -> Any:
        return decode_json(json.encode_sent(decode_sent(value)))["messages"]

    def from_json_value(self, json_value: Any, where: str) -> bytes:
        document = {"partitioning": {"kind": "balanced", "value": ""}, "messages": json_value}
        return encode_sent(json.decode_sent(encode_json(document)).messages)


class StoredShape(RestShape):
    """Stored messages up to the end of the reply; in JSON the `messages` of a poll's reply."""

    def to_json_value(self, value: BytesLike) -> Any:
        return decode_json(json.encode_polled(decode_polled(value), 0, 0))["messages"]

    def from_json_value(self, json_value: Any, where: str) -> bytes:
        if not isinstance(json_value, list):
            raise invalid_value(json_value, "a list", where)
        return encode_polled([json.decode_message(item, where=f"{where}[{number}]") for number, item in enumerate(json_value)])


STATE: Final = StateShape()
ANY_CONSUMER: Final = AnyConsumerShape()
Numbers: TypeAlias = Annotated[tuple[int, ...], NumbersShape()]
ByNumber: TypeAlias = Annotated[Mapping[int, int], ByNumberShape()]
Changes: TypeAlias = Annotated[Mapping[str, int | str | None], ChangesShape()]
MaybeText: TypeAlias = Annotated[str | None, MaybeTextShape()]
MaybeU64: TypeAlias = Annotated[int | None, MaybeNumberShape()]
LimitedTime: TypeAlias = Annotated[int | None, LimitedTimeShape(DEFAULT_DELETION_GRACE_US)]
States: TypeAlias = Annotated[tuple[int, ...], StatesShape()]
WideFlag: TypeAlias = Annotated[bool, WideFlagShape()]
AnyConsumer: TypeAlias = Annotated[ConsumerRef, ANY_CONSUMER]
Sent: TypeAlias = Annotated[BytesLike, SentShape()]
Stored: TypeAlias = Annotated[BytesLike, StoredShape()]
MemberId: TypeAlias = Annotated[U64, Json("member_id")]
TrailingU32: TypeAlias = Annotated[int, TrailingNumber(4), Default(0)]
TrailingU64: TypeAlias = Annotated[int, TrailingNumber(8), Default(0)]
TrailingText8: TypeAlias = Annotated[str, TrailingText(1), Default("")]
ByNumberOrEmpty: TypeAlias = Annotated[Mapping[int, int], ByNumberShape(), Default({})]
