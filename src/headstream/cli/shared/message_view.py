"""Messages as readable text: one line per message, in a table or a stream.

    1:42  2026-01-31T12:00:00.000000Z  key 42  attempt=uint8:3 source=string:web  {"total": 12.5}

A payload or key of printable UTF-8 is shown as text, with line ends and tabs escaped. Other bytes are shown as base64.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

import click

from headstream.cli.shared.header_text import encode_base64, format_header
from headstream.cli.shared.lines import encode_document, encode_line
from headstream.cli.shared.message_format import PAYLOAD_FORMS, MessageFormat, encode_payload, parse_format
from headstream.cli.shared.output import escape, fits, format_time, print_table, print_text, write_json_list
from headstream.cli.shared.parameters import FORMS
from headstream.core.model.message import MessageState, ReceivedMessage, state_name
from headstream.core.model.polling import PollingKind, PollingStrategy
from headstream.errors import InvalidInputError

_Function = TypeVar("_Function", bound=Callable[..., Any])

_SHOWN_CHARACTERS: Final = 200
"""Maximum number of payload characters in a table; JSON contains the entire payload."""
_BLANKS: Final = str.maketrans("", "", "\n\r\t")


@dataclass(frozen=True, slots=True)
class MessageForm:
    """The form in which messages are printed.

    Args:
        payload_as: One of PAYLOAD_FORMS; None is the default for `output`: readable text in tables, base64 in JSON.
        line: The formatter of --format, or None.
    """

    output: str
    payload_as: str | None = None
    line: MessageFormat | None = None


def form_options(function: _Function) -> _Function:
    """Add --output, --payload-as and --format; the command receives them as `form`, a MessageForm."""

    @click.option("--output", type=click.Choice(FORMS), default=None, help="The output format.  [default: table]")
    @click.option("--payload-as", type=click.Choice(PAYLOAD_FORMS), help="Format of printed payloads (and keys, with --format).")
    @click.option(
        "--format",
        "template",
        metavar="TEMPLATE",
        help="Print one line per message: %t topic, %p partition, %o offset, %d time (%T in us), %i id, %S state, %k key, %s "
        "payload, "
        "%h headers, %h{name} one header, %K %R sizes of key and payload in bytes.",
    )
    @functools.wraps(function)
    def with_form(output: str | None, payload_as: str | None, template: str | None, **options: Any) -> Any:
        if template is not None and output is not None:
            raise click.UsageError("--format replaces the output format: omit --output.")
        try:
            line = None if template is None else parse_format(template, payload_as or "text")
        except InvalidInputError as error:
            raise click.UsageError(str(error)) from None
        return function(form=MessageForm(output or "table", payload_as, line), **options)

    return cast("_Function", with_form)


def is_before(message: ReceivedMessage, until: PollingStrategy) -> bool:
    """Return whether a message is before an offset or a time."""
    return (message.timestamp if until.kind is PollingKind.TIMESTAMP else message.offset) < until.value


def print_message_table(messages: Sequence[ReceivedMessage], form: MessageForm) -> None:
    """Print a complete list of messages as a table, or one message per line if the terminal is too narrow."""
    if form.line is not None or form.output != "table":
        print_message_lines(messages, form)
        return
    has_states = any(message.state != MessageState.AVAILABLE for message in messages)
    columns = ["partition", "offset", "time", *(["state"] if has_states else []), "key", "headers", "payload"]
    folded = ("key", "headers", "payload")
    cells = [_cells(message, has_states, form) for message in messages]
    if fits(columns, cells, folded):
        print_table(columns, cells, folded)
    else:
        print_message_lines(messages, form)


def print_message_lines(messages: Iterable[ReceivedMessage], form: MessageForm, *, flush: bool = False) -> None:
    """Print messages as they arrive, one per line; `flush` flushes the output after each message."""
    if form.line is None and form.output == "json":
        write_json_list((encode_document(message, form.payload_as) for message in messages), flush=flush)
        return
    for message in messages:
        if form.line is not None:
            text = form.line(message)
        elif form.output == "jsonl":
            text = encode_line(message, form.payload_as)
        else:
            text = _line(message, form)
        print_text(text, flush=flush)


def describe_bytes(data: bytes | None, limit: int = _SHOWN_CHARACTERS) -> str:
    """Format bytes as text if they are printable UTF-8, otherwise as base64; truncate the result to `limit` characters."""
    if data is None:
        return "(null)"
    if not data:
        return "(empty)"
    try:
        text = data.decode("utf-8")
        is_text = text.translate(_BLANKS).isprintable()
    except UnicodeDecodeError:
        is_text = False
    shown = text if is_text else f"base64:{encode_base64(data)}"
    return escape(shown if len(shown) <= limit else f"{shown[:limit]}… ({len(data)} bytes)")


def _payload(message: ReceivedMessage, form: MessageForm) -> str:
    if form.payload_as is None or message.payload is None:
        return describe_bytes(message.payload)
    return escape(encode_payload(message.payload, form.payload_as))


def _cells(message: ReceivedMessage, has_states: bool, form: MessageForm) -> list[str]:
    state = [state_name(message.state)] if has_states else []
    key = "-" if message.key is None else describe_bytes(message.key)
    time = format_time(message.timestamp)
    return [str(message.partition), str(message.offset), time, *state, key, _headers(message), _payload(message, form)]


def _line(message: ReceivedMessage, form: MessageForm) -> str:
    parts = [f"{message.partition}:{message.offset}", format_time(message.timestamp)]
    if message.state != MessageState.AVAILABLE:
        parts.append(state_name(message.state))
    if message.key is not None:
        parts.append(f"key {describe_bytes(message.key)}")
    if message.headers:
        parts.append(_headers(message))
    return "  ".join((*parts, _payload(message, form)))


def _headers(message: ReceivedMessage) -> str:
    return escape(" ".join(format_header(key, value) for key, value in message.headers.items()))
