"""--format: prints each message by a template, like kcat.

    %t topic   %p partition   %o offset   %T time, microseconds since 1970 UTC   %d time, ISO 8601   %i id   %S state
    %k key     %s payload     %h all headers     %h{name} the last value of one header
    %K %R      bytes of key and payload, -1 for null       %% a percent sign    \\n \\t \\r \\0 \\\\ control characters

--payload-as sets the form of key and payload. A newline is added to each message unless the template ends with a newline.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Final

from headstream.cli.shared.header_text import encode_header_value, format_header
from headstream.cli.shared.output import format_time
from headstream.core.codec.json_text import decode_json, dump_json
from headstream.core.model.identifiers import format_message_id
from headstream.core.model.message import ReceivedMessage, state_name
from headstream.errors import DecodeError, InvalidInputError

PAYLOAD_FORMS: Final = ("text", "json", "hex", "base64")

MessageFormat = Callable[[ReceivedMessage], str]
"""Converts a message to its line, without the newline that print_text() adds."""

_TOKEN: Final = re.compile(r"%h\{([^}]*)\}|%(.)|\\(.)|%|\\", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


def encode_payload(data: bytes | None, form: str) -> str:
    """Format a payload or key as text.

    Args:
        data: The bytes; None (null) is formatted as the empty string, or as `null` for JSON.
        form: `text` (UTF-8, invalid bytes as \\xNN), `json` (on one line if it is JSON, else a JSON string), `hex`, or
            `base64`.
    """
    if form == "json":
        return _as_json(data)
    if data is None:
        return ""
    if form == "hex":
        return data.hex()
    return base64.b64encode(data).decode() if form == "base64" else data.decode("utf-8", "backslashreplace")


def _as_json(data: bytes | None) -> str:
    if data is None:
        return "null"
    try:
        return dump_json(decode_json(data, decimals=True))
    except (DecodeError, ValueError):
        return json.dumps(data.decode("utf-8", "backslashreplace"), ensure_ascii=False)


def parse_format(template: str, payload_form: str = "text") -> MessageFormat:
    """Return the formatter for a template; InvalidInputError for an unknown letter after % or a backslash."""
    fields: dict[str, MessageFormat] = {
        "t": lambda message: message.topic,
        "p": lambda message: str(message.partition),
        "o": lambda message: str(message.offset),
        "T": lambda message: str(message.timestamp),
        "d": lambda message: format_time(message.timestamp),
        "i": lambda message: format_message_id(message.id),
        "S": lambda message: state_name(message.state),
        "k": lambda message: encode_payload(message.key, payload_form),
        "s": lambda message: encode_payload(message.payload, payload_form),
        "K": lambda message: _length(message.key),
        "R": lambda message: _length(message.payload),
        "h": lambda message: " ".join(format_header(key, value) for key, value in message.headers.items()),
        "%": lambda message: "%",
    }
    parts: list[str | MessageFormat] = []
    at = 0
    for token in _TOKEN.finditer(template):
        parts.append(template[at : token.start()])
        at = token.end()
        header, letter, escape = token.groups()
        if header is not None:
            parts.append(_header_field(header))
        elif letter in fields:
            parts.append(fields[letter])
        elif escape in _ESCAPES:
            parts.append(_ESCAPES[escape])
        else:
            raise InvalidInputError(
                f"{token[0]!r} at character {token.start() + 1} of the format is unknown",
                advice="Use %t %p %o %T %d %i %S %k %s %K %R %h %h{name} %% \\n \\t \\r \\0 or \\\\",
            )
    parts.append(template[at:])
    if isinstance(parts[-1], str) and not parts[-1] and len(parts) > 1 and parts[-2] == "\n":
        del parts[-2:]
    return lambda message: "".join(part if isinstance(part, str) else part(message) for part in parts)


def _header_field(key: str) -> MessageFormat:
    def read(message: ReceivedMessage) -> str:
        value = message.headers.get(key)
        spelled = None if value is None else encode_header_value(value)
        return "" if spelled is None else str(spelled).lower() if isinstance(spelled, bool) else str(spelled)

    return read


def _length(data: bytes | None) -> str:
    return str(-1 if data is None else len(data))
