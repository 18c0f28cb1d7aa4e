"""The dialects that messages are converted between: what each can spell, how it is written and how it is read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headstream.codec import binary
from headstream.codec import json as json_transport
from headstream.codec.buffer import BytesLike
from headstream.codec.conversion.fields import Spelling, find_in_fields, find_in_headers
from headstream.codec.conversion.findings import DROPPED, Finding, OnLoss, choose, policies_of
from headstream.codec.conversion.values import fit_any_headstream, fit_iggy, fit_kip82, fit_string
from headstream.codec.kafka import KafkaRecord, encode_record
from headstream.codec.kip82 import LENIENT, decode_set, down_convert, encode_message, from_message, to_message
from headstream.codec.replicate.envelope import decode_envelope, encode_envelope
from headstream.errors import DecodeError, HeaderError, HeadstreamError, InvalidInputError, InvalidOptionError, LimitError
from headstream.model.headers import Headers
from headstream.model.identifiers import format_message_id
from headstream.model.message import Message, MessageState, state_name

__all__ = ["DIALECTS", "convert", "convert_all", "fit_message", "plan_conversion", "read_messages"]


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect.

    Args:
        spelling: What it can spell.
        write: Messages that fit -> their spelling.
        read: Bytes -> messages, or None where what is written is no bytes.
    """

    spelling: Spelling
    write: Callable[[Sequence[Message]], Any]
    read: Callable[[BytesLike], Sequence[Message]] | None


def plan_conversion(message: Message, *, to: str) -> tuple[Finding, ...]:
    """Return what a dialect would not spell as it is.

    Args:
        message: Any.
        to: One of DIALECTS.

    Returns:
        The findings: losses, and values that keep their value under another kind; empty where nothing changes.

    Raises:
        InvalidOptionError: there is no such dialect.
    """
    spelling = _dialect(to).spelling
    findings = (*find_in_fields(message, spelling), *(finding for _, finding in find_in_headers(message, spelling)))
    if any(finding.is_loss and not finding.remedies for finding in findings):
        return findings
    try:  # what only the whole message shows, such as a dialect's limit on headers in all, is asked of what writes it
        _dialect(to).write([fit_message(message, to=to, on_loss=_EVERY_POLICY)])
    except (LimitError, HeaderError) as error:
        return (*findings, Finding(error.where or "message", error.what))
    except HeadstreamError:  # a payload or field that is none of the dialect: no question of what is lost
        pass
    return findings


def fit_message(message: Message, *, to: str, on_loss: OnLoss = "error") -> Message:
    """Return a message that a dialect spells as it is.

    Args:
        message: Any.
        to: One of DIALECTS.
        on_loss: What becomes of what it does not spell: a policy, or several in order of preference.

    Raises:
        LimitError: something has no spelling, and no policy that was given accepts that.
        InvalidOptionError: there is no such dialect or policy.
    """
    spelling, policies = _dialect(to).spelling, policies_of(on_loss)
    changes: dict[str, Any] = _bare(message) if "bare" in policies and to in _CARRYING else {}
    for finding in find_in_fields(message, spelling):
        choose(finding, policies, to)
        changes |= _without(finding.part, message)
    findings = dict(find_in_headers(message, spelling))
    if findings:
        pairs = []
        for number, (key, value) in enumerate(message.headers.items()):
            found = findings.get(number)
            fitted: Any = value
            if found is not None:
                fitted = choose(found, policies, to) if found.is_loss else spelling.fit(key, value)[0]
            if fitted is not DROPPED:
                pairs.append((key, fitted))
        changes["headers"] = Headers(pairs)
    return replace(message, **changes) if changes else message


def _bare(message: Message) -> dict[str, Any]:
    """Return the changes to a message of which nothing but state and a wrong checksum travels as a header."""
    timestamp = message.timestamp
    return {"id": 0} | ({} if timestamp is None else {"timestamp": timestamp // 1000 * 1000})


def _without(part: str, message: Message) -> dict[str, Any]:
    """Return what a field becomes that is left out."""
    if part == "timestamp" and message.timestamp is not None and message.timestamp % 1000:
        return {"timestamp": message.timestamp // 1000 * 1000}
    left: dict[str, dict[str, Any]] = {
        "key": {"key": None},
        "state": {"state": MessageState.AVAILABLE},
        "checksum": {"checksum": -1},
        "id": {"id": 0},
    }
    return left.get(part, {})


def convert(message: Message, *, to: str, on_loss: OnLoss = "error") -> Any:
    """Return a message in another dialect.

    Args:
        message: Any; read_messages() makes one of bytes.
        to: One of DIALECTS.
        on_loss: `error` refuses what has no spelling there; `drop` leaves it out, `widen` and `text` make it a value of a
            wider kind or its text; `bare` leaves id and microseconds out that would travel as headers. Several are tried in
            order.

    Returns:
        Bytes, a KafkaRecord for `kafka`, a dict for `row`.

    Raises:
        LimitError: something has no spelling, and no policy that was given accepts that.
        InvalidOptionError: there is no such dialect or policy.
    """
    return convert_all((message,), to=to, on_loss=on_loss)


def convert_all(messages: Iterable[Message], *, to: str, on_loss: OnLoss = "error") -> Any:
    """Return messages in another dialect, together: back to back, or in one JSON document; of `kafka` and `row`, one.

    Args:
        messages: Any number; one for a dialect that has no way to put several together.
        to: One of DIALECTS.
        on_loss: As for convert().

    Raises:
        LimitError: something has no spelling, and no policy that was given accepts that.
        InvalidOptionError: there is no such dialect or policy.
    """
    return _dialect(to).write([fit_message(message, to=to, on_loss=on_loss) for message in messages])


def read_messages(data: BytesLike, *, dialect: str) -> Sequence[Message]:
    """Return the messages in some bytes.

    Args:
        data: All of them, and nothing else.
        dialect: One of DIALECTS that is bytes; the limits in its name do not bound what is read.

    Raises:
        DecodeError: the bytes are not of that dialect.
        InvalidOptionError: there is no such dialect, or it is no bytes.
    """
    read = _dialect(dialect).read
    if read is None:
        raise InvalidOptionError(f"{dialect} is written, not read", advice=f"Use one of {', '.join(READABLE)}")
    return read(data)


def _dialect(name: str) -> Dialect:
    dialect = DIALECTS.get(name)
    if dialect is None:
        raise InvalidOptionError(f"{name!r} is not a dialect", advice=f"Use one of {', '.join(DIALECTS)}")
    return dialect


def _are_stored(messages: Sequence[Message]) -> bool:
    return all(message.offset is not None and message.timestamp is not None for message in messages)


def _write_binary(messages: Sequence[Message]) -> bytes:
    return binary.encode_polled(messages) if _are_stored(messages) else binary.encode_sent(messages)


def _read_binary(data: BytesLike) -> Sequence[Message]:
    try:
        return binary.decode_polled(data)
    except DecodeError as error:
        try:
            return binary.decode_sent(data)
        except DecodeError:
            raise error from None


def _write_json(messages: Sequence[Message]) -> bytes:
    if not _are_stored(messages):
        return json_transport.encode_sent(messages)
    partitions = {message.partition or 0 for message in messages}
    if len(partitions) > 1:
        raise InvalidInputError("a JSON document holds the messages of one partition", advice="Convert each by itself")
    newest = max((message.offset or 0 for message in messages), default=0)
    return json_transport.encode_polled(messages, partitions.pop() if partitions else 0, newest)


def _read_json(data: BytesLike) -> Sequence[Message]:
    try:
        return json_transport.decode_polled(data).messages
    except DecodeError as error:
        if b'"partitioning"' not in bytes(data):
            raise error from None
        return json_transport.decode_sent(data).messages


def _write_kip82(messages: Sequence[Message]) -> bytes:
    return b"".join(encode_message(from_message(message)) for message in messages)


def _write_kip82_old(magic: int) -> Callable[[Sequence[Message]], bytes]:
    return lambda messages: b"".join(encode_message(down_convert(from_message(message), magic)[0]) for message in messages)


def _read_kip82(data: BytesLike) -> Sequence[Message]:
    found = decode_set(data, layout=LENIENT)
    if found.incomplete_bytes:
        raise DecodeError("the last message is cut short", found.end, have=found.incomplete_bytes)
    return [to_message(message) for message in found.messages]


def _write_replicate(messages: Sequence[Message]) -> bytes:
    message = _only(messages, "replicate")
    if message.payload is None:
        raise InvalidInputError("a null payload is no Replicate envelope")
    envelope = decode_envelope(message.payload)
    headers = {key: value.as_string() for key, value in message.headers.items()}
    return encode_envelope(replace(envelope, headers=headers or None))


def _read_replicate(data: BytesLike) -> Sequence[Message]:
    envelope = decode_envelope(bytes(data))
    bare = encode_envelope(replace(envelope, headers=None))
    return [Message(payload=bare, headers=Headers(envelope.headers or {}))]


def _write_row(messages: Sequence[Message]) -> dict[str, Any]:
    message = _only(messages, "row")
    return {
        "key": message.key,
        "payload": message.payload,
        "headers": message.headers.as_bytes(),
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp_us": message.timestamp,
        "id": format_message_id(message.id),
        "state": state_name(message.state),
        "checksum": message.checksum,
    }


def _write_kafka(messages: Sequence[Message]) -> KafkaRecord:
    return encode_record(_only(messages, "kafka"))


def _only(messages: Sequence[Message], dialect: str) -> Message:
    if len(messages) != 1:
        raise InvalidInputError(f"{dialect} is one message, not {len(messages)}", advice="Convert each by itself")
    return messages[0]


_EVERY_POLICY: Final = ("widen", "text", "drop")
_CARRYING: Final = ("kip82", "kafka")
"""Dialects in which a message's id and microseconds are reserved headers."""
_NO_STATE: Final = frozenset(("key", "id", "offset", "timestamp", "micros"))

DIALECTS: Final[Mapping[str, Dialect]] = {
    dialect.spelling.name: dialect
    for dialect in (
        Dialect(Spelling("binary", fit_iggy, iggy_limits=True), _write_binary, _read_binary),
        Dialect(Spelling("binary-wide", fit_any_headstream), _write_binary, _read_binary),
        Dialect(
            Spelling("binary-first", fit_iggy, iggy_limits=True, stored=_NO_STATE),
            lambda messages: binary.encode_polled(messages, dialect="binary-first"),
            lambda data: binary.decode_polled(data, dialect="binary-first"),
        ),
        Dialect(Spelling("json", fit_iggy, iggy_limits=True, repeats=False, reserved="any"), _write_json, _read_json),
        Dialect(Spelling("json-wide", fit_any_headstream, repeats=False, reserved="any"), _write_json, _read_json),
        Dialect(Spelling("kip82", fit_kip82, reserved="carried"), _write_kip82, _read_kip82),
        Dialect(
            Spelling("kip82-1", fit_kip82, headers=False, stored=frozenset(("key", "offset", "timestamp")), reserved=None),
            _write_kip82_old(1),
            _read_kip82,
        ),
        Dialect(
            Spelling("kip82-0", fit_kip82, headers=False, stored=frozenset(("key", "offset")), reserved=None),
            _write_kip82_old(0),
            _read_kip82,
        ),
        Dialect(
            Spelling("replicate", fit_string, repeats=False, stored=frozenset(), reserved=None), _write_replicate, _read_replicate
        ),
        Dialect(Spelling("kafka", fit_any_headstream, reserved="all"), _write_kafka, None),
        Dialect(Spelling("row", fit_any_headstream, reserved=None), _write_row, None),
    )
}
"""Name -> dialect."""

READABLE: Final = tuple(name for name, dialect in DIALECTS.items() if dialect.read is not None)
