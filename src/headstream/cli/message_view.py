"""Messages as people read them: one message is one line, of a table or of a stream.

    1:42  2026-01-31T12:00:00.000000Z  key 42  attempt=uint8:3 source=string:web  {"total": 12.5}

A payload or key that is printable UTF-8 is shown as text, with line ends and tabs spelled out, any other as base64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from headstream.cli.header_text import encode_base64, format_header
from headstream.cli.lines import encode_document, encode_line
from headstream.cli.output import escape, fits, format_time, print_table, print_text, write_json_list
from headstream.model.message import Message, MessageState, state_name

__all__ = ["describe_bytes", "print_message_lines", "print_message_table"]

_SHOWN_CHARACTERS: Final = 200
"""Of a payload in a table: more would hide the messages around it; JSON has all of it."""
_BLANKS: Final = str.maketrans("", "", "\n\r\t")


def print_message_table(messages: Sequence[Message], form: str) -> None:
    """Print messages that are all there: as a table, or a line each where a terminal is too narrow for one.

    Args:
        messages: What to print.
        form: table, json or jsonl.
    """
    has_states = any(message.state != MessageState.AVAILABLE for message in messages)
    columns = ["partition", "offset", "time", *(["state"] if has_states else []), "key", "headers", "payload"]
    folded = ("key", "headers", "payload")
    cells = [_cells(message, has_states) for message in messages] if form == "table" else []
    if form == "table" and fits(columns, cells, folded):
        print_table(columns, cells, folded)
    else:
        print_message_lines(messages, form)


def print_message_lines(messages: Iterable[Message], form: str, *, flush: bool = False) -> None:
    """Print messages as they come, one a line.

    Args:
        messages: What to print; any number.
        form: table (a line for people), json (a list) or jsonl (import's form).
        flush: Whether somebody waits for each.
    """
    if form == "json":
        write_json_list((encode_document(message) for message in messages), flush=flush)
        return
    spell = encode_line if form == "jsonl" else _line
    for message in messages:
        print_text(spell(message), flush=flush)


def describe_bytes(data: bytes | None, limit: int = _SHOWN_CHARACTERS) -> str:
    """Return bytes as people read them: text where they are printable UTF-8, else base64.

    Args:
        data: A payload or key; None is a null payload.
        limit: How many characters to show at most; the rest is counted.
    """
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


def _cells(message: Message, has_states: bool) -> list[str]:
    state = [state_name(message.state)] if has_states else []
    key = "-" if message.key is None else describe_bytes(message.key)
    time = format_time(message.timestamp or 0)
    return [str(message.partition), str(message.offset), time, *state, key, _headers(message), describe_bytes(message.payload)]


def _line(message: Message) -> str:
    parts = [f"{message.partition}:{message.offset}", format_time(message.timestamp or 0)]
    if message.state != MessageState.AVAILABLE:
        parts.append(state_name(message.state))
    if message.key is not None:
        parts.append(f"key {describe_bytes(message.key)}")
    if message.headers:
        parts.append(_headers(message))
    return "  ".join((*parts, describe_bytes(message.payload)))


def _headers(message: Message) -> str:
    return escape(" ".join(format_header(key, value) for key, value in message.headers.items()))
