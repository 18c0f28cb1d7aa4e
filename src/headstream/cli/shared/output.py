"""Output of commands on standard output: tables for users, JSON for programs.

--output table    aligned columns, fitted to the terminal without truncation; as wide as necessary without a terminal
--output json     one document: a list of objects, or a single object
--output jsonl    one object per line
"""

from __future__ import annotations

import os
import select
import shutil
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal

from headstream.core.codec.json_text import dump_json

_WIDE: Final = 10_000
"""Width of output without a terminal, which is so large that nothing is folded."""
_GAP: Final = 2
_UNFOLDED: Final = 32
_FOLDED: Final = 12
"""On a narrow terminal, columns with cells longer than the first number are folded to at least the second number."""
_ESCAPES: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


class OutputClosedError(Exception):
    """The reader of standard output has closed the pipe, as `head` does."""


def print_text(text: str, *, flush: bool = False) -> None:
    """Write one line to standard output, and flush it if `flush`; OutputClosedError if the reader has closed the pipe."""
    try:
        sys.stdout.write(f"{text}\n")
        if flush:
            sys.stdout.flush()
    except BrokenPipeError:
        raise OutputClosedError from None


def check_reader() -> None:
    """Raise OutputClosedError if standard output is a pipe that its reader has closed."""
    try:
        if not stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode):
            return
        poll = select.poll()
    except (AttributeError, OSError, ValueError):  # standard output is not a file, or the system has no poll()
        return
    poll.register(sys.stdout.fileno(), select.POLLERR)
    if poll.poll(0):
        raise OutputClosedError


def print_objects(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], form: str) -> None:
    """Print objects of one type, given in their JSON form; a table shows the members `columns`, in this order."""
    if form == "table":
        print_table(columns, ([_show(row[name]) for name in columns] for row in rows))
    elif form == "json":
        write_json_list(rows)
    else:
        for row in rows:
            print_text(dump_json(row))


def print_object(members: Mapping[str, Any], form: str) -> None:
    """Print one object, given in its JSON form: one line per member, or as JSON."""
    if form == "table":
        print_table((), ([name, _show(value)] for name, value in members.items()))
    else:
        print_text(dump_json(members, indent=2 if form == "json" else None))


def write_json_list(documents: Iterable[Any], *, flush: bool = False) -> None:
    """Print a JSON list of documents, one document per line, as they arrive. The list is closed even after Ctrl-C."""
    before = ""
    try:
        print_text("[", flush=flush)
        for document in documents:
            print_text(f"{before}{dump_json(document)}", flush=flush)
            before = ","
    finally:
        print_text("]", flush=flush)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], folded: Sequence[str] = ()) -> None:
    """Print aligned columns. If the terminal is too narrow, print one line per cell.

    Args:
        folded: Columns to fold on a narrow terminal; empty folds the columns with long cells.
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
    """Return the minimum width of a column without truncation, and whether the column can be folded to this width."""
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
    """Escape control characters in a string, so that a terminal displays them instead of acting on them."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _ESCAPES.get(c) or c.encode("unicode_escape").decode("ascii") for c in text)


def format_time(time_us: int) -> str:
    """Format a time in ISO 8601, in UTC, to the microsecond. After the year 9999, return the number."""
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
