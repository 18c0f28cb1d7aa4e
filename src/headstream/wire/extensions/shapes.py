"""Shapes of fields that only Headstream's own commands have.

numbers     count u32 | number u64 ...
by_number   count u32 | (number u32 | value u64) ...          in JSON an object keyed by the number
changes     count u8 | (name text8 | has u8 [| value u64]) ...
consumer    kind u8 | identifier                              in JSON and URLs `consumer:NAME` or `group:NAME`
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeAlias

from headstream.codec import json
from headstream.codec.binary import decode_sent, encode_sent
from headstream.codec.buffer import BytesLike, Reader, Writer
from headstream.codec.json_text import decode_json, encode_json
from headstream.errors import DecodeError, InvalidInputError
from headstream.model.message import parse_state, state_name
from headstream.model.polling import ConsumerKind
from headstream.wire.commands.offsets import CONSUMER, ConsumerRef
from headstream.wire.shapes import IDENTIFIER, U64, Default, Json, Shape, Unsigned, wrong

__all__ = [
    "ANY_CONSUMER",
    "STATE",
    "AnyConsumer",
    "ByNumber",
    "Changes",
    "Choice",
    "MaybeU64",
    "MemberId",
    "NoNumbers",
    "Numbers",
    "Sent",
    "States",
    "WideFlag",
]

_U64: Final = Unsigned(8)


class LastNumber(Unsigned):
    """A number at the end of a command that clients before it do not send: 0 where there are no bytes of it."""

    def pull(self, reader: Reader, what: str) -> int:
        return super().pull(reader, what) if reader.remaining >= self.size else 0


class NumbersShape(Shape):
    def push(self, writer: Writer, value: tuple[int, ...]) -> None:
        writer.push_u32(len(value))
        for number in value:
            writer.push_u64(number)

    def pull(self, reader: Reader, what: str) -> tuple[int, ...]:
        inner = Reader(reader.pull_view(8 * reader.pull_u32(f"the count of {what}"), what))
        return tuple(inner.pull_u64(what) for _ in range(inner.remaining // 8))

    def spell(self, value: tuple[int, ...]) -> list[int]:
        return list(value)

    def read(self, spelled: Any, where: str) -> tuple[int, ...]:
        if not isinstance(spelled, list):
            raise wrong(spelled, "a list of numbers", where)
        return tuple(_U64.read(item, f"{where}[{number}]") for number, item in enumerate(spelled))


class ByNumberShape(Shape):
    def push(self, writer: Writer, value: Mapping[int, int]) -> None:
        writer.push_u32(len(value))
        for number, item in sorted(value.items()):
            writer.push_u32(number)
            writer.push_u64(item)

    def pull(self, reader: Reader, what: str) -> dict[int, int]:
        inner = Reader(reader.pull_view(12 * reader.pull_u32(f"the count of {what}"), what))
        return {inner.pull_u32(what): inner.pull_u64(what) for _ in range(inner.remaining // 12)}

    def spell(self, value: Mapping[int, int]) -> dict[str, int]:
        return {str(number): item for number, item in sorted(value.items())}

    def read(self, spelled: Any, where: str) -> dict[int, int]:
        if not isinstance(spelled, dict):
            raise wrong(spelled, "an object keyed by numbers", where)
        number = Unsigned(4)
        return {number.read_text(name, where): _U64.read(item, f"{where}.{name}") for name, item in spelled.items()}


class ChangesShape(Shape):
    def push(self, writer: Writer, value: Mapping[str, int | None]) -> None:
        writer.push_u8(len(value))
        for name, item in sorted(value.items()):
            writer.push_text8(name)
            writer.push_u8(item is not None)
            if item is not None:
                writer.push_u64(item)

    def pull(self, reader: Reader, what: str) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for _ in range(reader.pull_u8(f"the count of {what}")):
            name = reader.pull_text8("the name of an option")
            found[name] = reader.pull_u64(name) if reader.pull_u8(f"whether there is {name}") == 1 else None
        return found

    def spell(self, value: Mapping[str, int | None]) -> dict[str, int | None]:
        return dict(value)

    def read(self, spelled: Any, where: str) -> dict[str, int | None]:
        if not isinstance(spelled, dict):
            raise wrong(spelled, "an object of options", where)
        return {name: None if item is None else _U64.read(item, f"{where}.{name}") for name, item in spelled.items()}


class MaybeNumberShape(Shape):
    is_optional = True

    def push(self, writer: Writer, value: int | None) -> None:
        writer.push_u8(value is not None)
        writer.push_u64(value or 0)

    def pull(self, reader: Reader, what: str) -> int | None:
        has, value = reader.pull_u8(f"whether there is {what}"), reader.pull_u64(what)
        return value if has == 1 else None

    def read(self, spelled: Any, where: str) -> int | None:
        return None if spelled is None else _U64.read(spelled, where)


class StatesShape(Shape):
    """count u8 | state u8 ...; none asks for the available ones."""

    is_optional = True

    def push(self, writer: Writer, value: tuple[int, ...]) -> None:
        writer.push_u8(len(value))
        for state in value:
            writer.push_u8(state)

    def pull(self, reader: Reader, what: str) -> tuple[int, ...]:
        return tuple(reader.pull_bytes(reader.pull_u8(f"the count of {what}"), what))

    def spell(self, value: tuple[int, ...]) -> list[str]:
        return [state_name(state) for state in value]

    def read(self, spelled: Any, where: str) -> tuple[int, ...]:
        if spelled is None:
            return ()
        if not isinstance(spelled, list):
            raise wrong(spelled, "a list of states", where)
        return tuple(STATE.read(item, f"{where}[{number}]") for number, item in enumerate(spelled))


class StateShape(Shape):
    """One byte; in JSON a name."""

    def push(self, writer: Writer, value: int) -> None:
        writer.push_u8(value)

    def pull(self, reader: Reader, what: str) -> int:
        return reader.pull_u8(what)

    def spell(self, value: int) -> str:
        return state_name(value)

    def read(self, spelled: Any, where: str) -> int:
        try:
            return parse_state(spelled)
        except (InvalidInputError, AttributeError):
            raise wrong(spelled, "the name of a state", where) from None


class Choice(Shape):
    """A member of a text enumeration, by its name.

    Args:
        kind: The enumeration.
    """

    def __init__(self, kind: type[enum.StrEnum]) -> None:
        self.kind = kind

    def push(self, writer: Writer, value: str) -> None:
        """Write it."""
        writer.push_text8(value)

    def pull(self, reader: Reader, what: str) -> enum.StrEnum:
        """Read it."""
        at = reader.at
        try:
            return self.kind(reader.pull_text8(what))
        except ValueError as error:
            if isinstance(error, DecodeError):
                raise
            raise DecodeError(f"{what} is one of {', '.join(self.kind)}", at) from None

    def spell(self, value: Any) -> str:
        """Return its name."""
        return str(value)

    def read(self, spelled: Any, where: str) -> enum.StrEnum:
        """Return the member of a name."""
        if not isinstance(spelled, str) or spelled not in list(self.kind):
            raise wrong(spelled, f"one of {', '.join(self.kind)}", where)
        return self.kind(spelled)


class WideFlagShape(Shape):
    """A flag of four bytes, since a body of one byte is never sent."""

    def push(self, writer: Writer, value: bool) -> None:
        writer.push_u32(int(value))

    def pull(self, reader: Reader, what: str) -> bool:
        return reader.pull_u32(what) == 1

    def read(self, spelled: Any, where: str) -> bool:
        if not isinstance(spelled, bool):
            raise wrong(spelled, "true or false", where)
        return spelled


class AnyConsumerShape(Shape):
    def push(self, writer: Writer, value: ConsumerRef) -> None:
        CONSUMER.push(writer, value)

    def pull(self, reader: Reader, what: str) -> ConsumerRef:
        return CONSUMER.pull(reader, what)

    def spell(self, value: ConsumerRef) -> str:
        return f"{value.kind.name.lower()}:{IDENTIFIER.spell_text(value.id)}"

    def spell_text(self, value: ConsumerRef) -> str:
        return self.spell(value)

    def read(self, spelled: Any, where: str) -> ConsumerRef:
        kind, colon, name = spelled.partition(":") if isinstance(spelled, str) else ("", "", "")
        if not colon or kind not in ("consumer", "group"):
            raise wrong(spelled, "consumer:NAME or group:NAME", where)
        return ConsumerRef(ConsumerKind[kind.upper()], IDENTIFIER.read_text(name, where))


class SentShape(Shape):
    """Sent messages to the end; in JSON the list of them that a send has."""

    def push(self, writer: Writer, value: BytesLike) -> None:
        writer.push_bytes(value)

    def pull(self, reader: Reader, what: str) -> memoryview:
        return reader.pull_view(reader.remaining, what)

    def spell(self, value: BytesLike) -> Any:
        return decode_json(json.encode_sent(decode_sent(value)))["messages"]

    def read(self, spelled: Any, where: str) -> bytes:
        document = {"partitioning": {"kind": "balanced", "value": ""}, "messages": spelled}
        return encode_sent(json.decode_sent(encode_json(document)).messages)


STATE: Final = StateShape()
ANY_CONSUMER: Final = AnyConsumerShape()
Numbers: TypeAlias = Annotated[tuple[int, ...], NumbersShape()]
ByNumber: TypeAlias = Annotated[Mapping[int, int], ByNumberShape()]
Changes: TypeAlias = Annotated[Mapping[str, int | None], ChangesShape()]
MaybeU64: TypeAlias = Annotated[int | None, MaybeNumberShape()]
States: TypeAlias = Annotated[tuple[int, ...], StatesShape()]
WideFlag: TypeAlias = Annotated[bool, WideFlagShape()]
AnyConsumer: TypeAlias = Annotated[ConsumerRef, ANY_CONSUMER]
Sent: TypeAlias = Annotated[BytesLike, SentShape()]
MemberId: TypeAlias = Annotated[U64, Json("member_id")]
NoNumbers: TypeAlias = Annotated[Mapping[int, int], ByNumberShape(), Default({})]
