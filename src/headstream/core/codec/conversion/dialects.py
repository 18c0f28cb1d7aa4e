"""The dialects between which messages are converted, with their capabilities, writers and readers."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from headstream.core.codec import binary
from headstream.core.codec import json as json_transport
from headstream.core.codec.buffer import BytesLike
from headstream.core.codec.conversion.fields import Capabilities, find_in_fields, find_in_headers
from headstream.core.codec.conversion.findings import DROPPED, Finding, OnLoss, choose, policies_of
from headstream.core.codec.conversion.values import fit_iggy, fit_kip82, fit_wide
from headstream.core.codec.dialect_modules import DIALECT_MODULES
from headstream.core.codec.kafka import encode_record
from headstream.core.codec.kip82 import LENIENT, decode_set, down_convert, encode_message, from_message, to_message
from headstream.core.model.headers import Headers
from headstream.core.model.identifiers import format_message_id
from headstream.core.model.message import Message, MessageState, state_name
from headstream.errors import DecodeError, HeadstreamError, InvalidInputError, InvalidOptionError


@dataclass(frozen=True, slots=True)
class Dialect:
    """One dialect; `read` is None if the dialect's messages are not bytes."""

    capabilities: Capabilities
    write: Callable[[Sequence[Message]], Any]
    read: Callable[[BytesLike], Sequence[Message]] | None


def plan_conversion(message: Message, *, to: str) -> tuple[Finding, ...]:
    """Return the losses of converting a message to a dialect.

    convert() raises an error for a message if and only if its plan has a loss.

    Args:
        message: The message to convert.
        to: One of DIALECTS.

    Returns:
        The losses, and the values whose kind changes without a loss; empty if nothing changes. If the dialect cannot
        represent the message at all, no policy accepts the loss.

    Raises:
        InvalidOptionError: the dialect is unknown.
    """
    capabilities = _dialect(to).capabilities
    findings = (*find_in_fields(message, capabilities), *(finding for _, finding in find_in_headers(message, capabilities)))
    if any(finding.is_loss and not finding.remedies for finding in findings):
        return findings
    try:  # limits of the whole message, such as the total size of headers, are checked only by the writer
        _dialect(to).write([fit_message(message, to=to, on_loss=_EVERY_POLICY)])
    except HeadstreamError as error:
        return (*findings, Finding(error.where or "message", error.what))
    return findings


def fit_message(message: Message, *, to: str, on_loss: OnLoss = "error") -> Message:
    """Return a message without the parts that a dialect cannot represent.

    Args:
        on_loss: What to do about a loss: a policy, or several policies in order of preference.

    Raises:
        LimitError: the dialect cannot represent a part, and no given policy accepts the loss.
    """
    capabilities, policies = _dialect(to).capabilities, policies_of(on_loss)
    changes: dict[str, Any] = _bare_changes(message) if "bare" in policies and to in _WITH_RESERVED_HEADERS else {}
    for finding in find_in_fields(message, capabilities):
        choose(finding, policies, to)
        changes |= _omitted(finding.part, message)
    findings = dict(find_in_headers(message, capabilities))
    if findings:
        pairs = []
        for number, (key, value) in enumerate(message.headers.items()):
            found = findings.get(number)
            fitted: Any = value
            if found is not None:
                fitted = choose(found, policies, to) if found.is_loss else capabilities.fit(key, value)[0]
            if fitted is not DROPPED:
                pairs.append((key, fitted))
        changes["headers"] = Headers(pairs)
    return replace(message, **changes) if changes else message


def _bare_changes(message: Message) -> dict[str, Any]:
    """Return the changes for the policy `bare`: omit id and microseconds, which would become reserved headers."""
    timestamp = message.timestamp
    return {"id": 0} | ({} if timestamp is None else {"timestamp": timestamp // 1000 * 1000})


def _omitted(part: str, message: Message) -> dict[str, Any]:
    """Return the changes to a message that omit a field."""
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
    """Convert a message to another dialect.

    Args:
        message: The message; read_messages() decodes bytes to messages.
        to: One of DIALECTS.
        on_loss: What to do with a value that the dialect cannot represent: `error` raises an error, `drop` omits the value,
            `widen` converts it to a wider kind, and `text` converts it to a string. `bare` omits id and microseconds if they
            would become headers. Several policies are tried in order.

    Returns:
        Bytes, a KafkaRecord for `kafka`, a dict for `row`.

    Raises:
        LimitError: the dialect cannot represent a part, and no given policy accepts the loss.
        InvalidInputError: the dialect cannot represent the message at all: `binary-first` requires a polled message, `replicate`
            requires an envelope as payload, and numbers must be in the range of the dialect's fields.
        InvalidOptionError: the dialect or policy is unknown.
    """
    return convert_all((message,), to=to, on_loss=on_loss)


def convert_all(messages: Iterable[Message], *, to: str, on_loss: OnLoss = "error") -> Any:
    """Convert several messages to contiguous bytes or one JSON document; `kafka` and `row` accept a single message.

    Args:
        on_loss: As for convert().

    Raises:
        LimitError: the dialect cannot represent a part, and no given policy accepts the loss.
        InvalidInputError: the dialect cannot represent a message, as for convert(), or the messages cannot be in one document.
    """
    return _dialect(to).write([fit_message(message, to=to, on_loss=on_loss) for message in messages])


def read_messages(data: BytesLike, *, dialect: str) -> Sequence[Message]:
    """Decode messages from bytes.

    Args:
        data: The encoded messages; must not contain other bytes.
        dialect: A dialect in DIALECTS whose messages are bytes; limits of the dialect are not enforced.

    Raises:
        DecodeError: the bytes are invalid in the dialect.
        InvalidOptionError: the dialect is unknown, or its messages are not bytes.
    """
    read = _dialect(dialect).read
    if read is None:
        readable = (name for name, known in DIALECTS.items() if known.read is not None)
        raise InvalidOptionError(f"the dialect {dialect} cannot be read", advice=f"Use one of {', '.join(readable)}")
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
        raise InvalidInputError("a JSON document can hold only one partition", advice="Convert each partition separately")
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


def _write_row(messages: Sequence[Message]) -> dict[str, Any]:
    message = only(messages, "row")
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


def only(messages: Sequence[Message], dialect: str) -> Message:
    """Return the only message, for a dialect of single messages; InvalidInputError if there is not exactly one message."""
    if len(messages) != 1:
        raise InvalidInputError(f"{dialect} can hold only one message, not {len(messages)}", advice="Convert messages one by one")
    return messages[0]


_EVERY_POLICY: Final = ("widen", "text", "drop")
_WITH_RESERVED_HEADERS: Final = ("kip82", "kafka")
"""Dialects in which a message's id and microseconds are reserved headers."""
_NO_STATE: Final = frozenset(("key", "id", "offset", "timestamp", "micros"))

DIALECTS: Final[dict[str, Dialect]] = {
    dialect.capabilities.name: dialect
    for dialect in (
        Dialect(Capabilities("binary", fit_iggy, iggy_limits=True), _write_binary, _read_binary),
        Dialect(Capabilities("binary-wide", fit_wide), _write_binary, _read_binary),
        Dialect(
            Capabilities("binary-first", fit_iggy, iggy_limits=True, stored=_NO_STATE),
            lambda messages: binary.encode_polled(messages, dialect="binary-first"),
            lambda data: binary.decode_polled(data, dialect="binary-first"),
        ),
        Dialect(Capabilities("json", fit_iggy, iggy_limits=True, repeats=False, reserved="any"), _write_json, _read_json),
        Dialect(Capabilities("json-wide", fit_wide, repeats=False, reserved="any"), _write_json, _read_json),
        Dialect(Capabilities("kip82", fit_kip82, reserved="carried"), _write_kip82, _read_kip82),
        Dialect(
            Capabilities("kip82-1", fit_kip82, headers=False, stored=frozenset(("key", "offset", "timestamp")), reserved=None),
            _write_kip82_old(1),
            _read_kip82,
        ),
        Dialect(
            Capabilities("kip82-0", fit_kip82, headers=False, stored=frozenset(("key", "offset")), reserved=None),
            _write_kip82_old(0),
            _read_kip82,
        ),
        Dialect(Capabilities("kafka", fit_wide, reserved="all"), lambda messages: encode_record(only(messages, "kafka")), None),
        Dialect(Capabilities("row", fit_wide, reserved=None), _write_row, None),
    )
}
"""Name -> dialect."""


def register(dialect: Dialect) -> None:
    """Add a dialect of a higher layer; called by the modules that dialect_modules.py lists."""
    DIALECTS[dialect.capabilities.name] = dialect


for _module in DIALECT_MODULES:
    importlib.import_module(_module)
