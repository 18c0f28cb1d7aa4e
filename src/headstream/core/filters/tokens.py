"""The tokens of a filter: words, quoted names, numbers, quoted strings and symbols, with their positions.

word     attempt   hs.timestamp   _state   AND        letters, digits, _ . and $; keywords are case-insensitive
name     "content-type"                               "" stands for one "
number   3   12.5   1e6                               a sign is a symbol
text     'web'                                        '' stands for one '
symbol   = <> != < <= > >= ( ) , -  +
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from headstream.errors import InvalidInputError

MAX_FILTER_BYTES: Final = 2048
"""Maximum length of a filter: percent-encoded, it fits into the first line of an HTTP request, at most 8,190 bytes."""

_SHOWN_CHARACTERS: Final = 60
"""Number of characters of a long filter that an error shows."""

_TOKEN: Final = re.compile(
    r"""(?P<word>[A-Za-z_$][A-Za-z0-9_.$]*)
    |(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?![A-Za-z0-9_.$]))
    |"(?P<name>(?:[^"]|"")*)"
    |'(?P<text>(?:[^']|'')*)'
    |(?P<symbol><>|!=|<=|>=|[=<>(),+-])""",
    re.VERBOSE,
)
_SPACES: Final = re.compile(r"\s*")


class Token(NamedTuple):
    """One token.

    Args:
        kind: `word`, `name`, `number`, `text`, `symbol` or `end`.
        text: A word as written, the content of a quoted name or string, or a symbol.
        at: Start position in characters, from 0.
    """

    kind: str
    text: str
    at: int
    source: str

    @property
    def keyword(self) -> str:
        """The word in capitals; empty for other tokens."""
        return self.text.upper() if self.kind == "word" else ""


def tokenize(source: str) -> list[Token]:
    """Split a filter into tokens; the last token has the kind `end`."""
    try:
        size = len(source.encode())
    except UnicodeEncodeError as error:
        raise filter_error(source, error.start, "this character is half of a surrogate pair") from None
    if size > MAX_FILTER_BYTES:
        raise InvalidInputError(f"a filter must have at most {MAX_FILTER_BYTES} bytes, not {size}")
    tokens: list[Token] = []
    at = _skip_spaces(source, 0)
    while at < len(source):
        match = _TOKEN.match(source, at)
        if match is None or match.lastgroup is None:
            raise _unknown(source, at)
        kind, text = match.lastgroup, match[match.lastgroup]
        if kind in ("name", "text"):
            quote = source[at]
            text = text.replace(quote * 2, quote)
        tokens.append(Token(kind, text, at, match[0]))
        at = _skip_spaces(source, match.end())
    tokens.append(Token("end", "", at, "the end"))
    return tokens


def _skip_spaces(source: str, at: int) -> int:
    match = _SPACES.match(source, at)
    return at if match is None else match.end()


def _unknown(source: str, at: int) -> InvalidInputError:
    character = source[at]
    if character in "'\"":
        return filter_error(source, at, "the quote is not closed")
    if character.isdigit() or character == ".":
        return filter_error(source, at, "this is not a number", advice='Quote a header name that begins with a digit: "2nd"')
    advice = 'Quote a header name that contains characters other than letters, digits, _ and .: "content-type"'
    return filter_error(source, at, f"{character!r} is not part of the filter language", advice=advice)


def filter_error(source: str, at: int, what: str, *, advice: str | None = None) -> InvalidInputError:
    """Return the error for a position (from 0) in a filter; it shows the filter with a caret below this character."""
    begin = max(0, min(at - _SHOWN_CHARACTERS // 2, len(source) - _SHOWN_CHARACTERS))
    end = min(len(source), begin + _SHOWN_CHARACTERS)
    before, after = "..." if begin else "", "..." if end < len(source) else ""
    shown = "".join(character if character.isprintable() else " " for character in source[begin:end])
    caret = " " * (len(before) + at - begin) + "^"
    reason = what if advice is None else f"{what}. {advice}"
    return InvalidInputError(f"the filter is invalid at character {at + 1}: {reason}\n  {before}{shown}{after}\n  {caret}")
