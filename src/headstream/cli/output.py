"""What commands print: tables for people, JSON for programs, each to standard output and nowhere else.

--output table    aligned columns, fitted to the terminal without losing anything; as wide as need be where there is none
--output json     one document: a list where a command shows many, an object where it shows one
--output jsonl    one object a line
"""

from __future__ import annotations

import json
import os
import select
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

__all__ = [
    "ReaderLeftError",
    "check_reader",
    "escape",
    "fits",
    "format_time",
    "print_object",
    "print_objects",
    "print_table",
    "print_text",
    "write_json_list",
]

_WIDE: Final = 10_000
"""Columns of a table that no terminal shows: enough that nothing is folded."""
_GAP: Final = 2
_UNFOLDED: Final = 32
_FOLDED: Final = 12
"""On a narrow terminal columns with cells longer than the first are folded, to no less than the second."""
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class ReaderLeftError(Exception):
    """Whoever read standard output has gone, as `head` does: there is nobody to write for."""


def print_text(text: str, *, flush: bool = False) -> None:
    """Write one line to standard output.

    Args:
        text: Without the line's end.
        flush: Whether somebody waits for it.

    Raises:
        ReaderLeftError: nobody reads any more.
    """
    try:
        sys.stdout.write(f"{text}\n")
        if flush:
            sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderLeftError from None


def check_reader() -> None:
    """See whether somebody still reads standard output, where it is a pipe.

    Raises:
        ReaderLeftError: nobody does.
    """
    try:
        if not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
            return
        poll = select.poll()
    except (AttributeError, OSError, ValueError):  # no file behind standard output, or a system without poll()
        return
    poll.register(sys.stdout.fileno(), select.POLLERR)
    if poll.poll(0):
        raise ReaderLeftError


def print_objects(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], form: str) -> None:
    """Print many things of a kind.

    Args:
        rows: What each is, as JSON has it.
        columns: The members that a table shows, in order.
        form: table, json or jsonl.
    """
    if form == "table":
        print_table(columns, ([_show(row[name]) for name in columns] for row in rows))
    elif form == "json":
        write_json_list(rows)
    else:
        for row in rows:
            print_text(json.dumps(row, ensure_ascii=False))


def print_object(members: Mapping[str, Any], form: str) -> None:
    """Print one thing: its members one below the other, or as one object.

    Args:
        members: What it is, as JSON has it.
        form: table, json or jsonl.
    """
    if form == "table":
        print_table((), ([name, _show(value)] for name, value in members.items()))
    else:
        print_text(json.dumps(members, ensure_ascii=False, indent=2 if form == "json" else None))


def write_json_list(documents: Iterable[Any], *, flush: bool = False) -> None:
    """Print a list of JSON documents, one a line, as they come; the list is closed also when they end by Ctrl-C.

    Args:
        documents: What to print; any number.
        flush: Whether somebody waits for each.
    """
    before = ""
    try:
        print_text("[", flush=flush)
        for document in documents:
            print_text(f"{before}{json.dumps(document, ensure_ascii=False)}", flush=flush)
            before = ","
    finally:
        print_text("]", flush=flush)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], folded: Sequence[str] = ()) -> None:
    """Print aligned columns; on a terminal that is too narrow for them each row as its members, one below the other.

    Args:
        columns: Their names; none for members: a name and its value.
        rows: The cells, as text; numbers stand at the right.
        folded: Columns that a narrow terminal folds; none is those with long cells.
    """
    cells = [[escape(cell) for cell in row] for row in rows]
    if fits(columns, cells, folded):
        _print_aligned(columns, cells, folded)
        return
    for number, row in enumerate(cells):
        if number:
            print_text("")
        _print_aligned((), list(zip(columns, row, strict=True)))


def fits(columns: Sequence[str], cells: Sequence[Sequence[str]], folded: Sequence[str] = ()) -> bool:
    """Return whether standard output is wide enough for a table with these columns; arguments as for print_table()."""
    if not columns or not sys.stdout.isatty():
        return True
    widths = (_widths(columns, cells, folded, number)[0] for number in range(len(columns)))
    return sum(widths) + _GAP * (len(columns) - 1) <= shutil.get_terminal_size().columns


def _widths(columns: Sequence[str], cells: Sequence[Sequence[str]], folded: Sequence[str], number: int) -> tuple[int, bool]:
    """Return the least width of a column that loses nothing, and whether it may be folded to it."""
    from rich.cells import cell_len

    longest = max((cell_len(row[number]) for row in cells), default=0)
    is_folded = columns[number] in folded if folded else longest > _UNFOLDED
    return max(cell_len(columns[number]), min(longest, _FOLDED) if is_folded else longest), is_folded


def _print_aligned(columns: Sequence[str], cells: Sequence[Sequence[str]], folded: Sequence[str] = ()) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    is_terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if is_terminal else _WIDE
    console = Console(file=sys.stdout, width=width, height=_WIDE, highlight=False, emoji=False, markup=False)
    table = Table(box=box.SIMPLE_HEAD if is_terminal and columns else None, show_header=bool(columns), show_edge=False)
    table.pad_edge = False
    table.padding = (0, _GAP - 1 if table.box else _GAP, 0, 0)
    for number, name in enumerate(columns):
        is_number = all(row[number].lstrip("-").isdecimal() for row in cells)
        least, is_folded = _widths(columns, cells, folded, number)
        justify: Literal["left", "right"] = "right" if is_number else "left"
        table.add_column(Text(name), justify=justify, overflow="fold", no_wrap=not is_folded, min_width=least)
    if not columns:
        table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    with console.capture() as capture:
        console.print(table)
    for line in _lines(capture.get()):
        print_text(line)


def escape(text: str) -> str:
    """Return a text that a terminal shows as it is: characters that would move it or colour it are spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _ESCAPES.get(c) or c.encode("unicode_escape").decode("ascii") for c in text)


def format_time(time_us: int) -> str:
    """Return a time as ISO 8601 has it, in UTC, to the microsecond.

    Args:
        time_us: Microseconds since 1970 UTC; one beyond the year 9999 is returned as the number.
    """
    try:
        seconds, micros = divmod(time_us, 1_000_000)
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{micros:06d}Z"
    except (ValueError, OverflowError, OSError):
        return str(time_us)


def _lines(text: str) -> Iterator[str]:
    return (line.rstrip() for line in text.split("\n") if line.strip())


def _show(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_show, value)) or "-"
    return str(value)
