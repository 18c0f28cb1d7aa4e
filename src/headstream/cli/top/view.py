"""The screen of `headstream top`: a log's load, its busiest topics, the groups with the largest lags, and pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from headstream.cli.shared.output import escape
from headstream.cli.top.rates import Overview, TopicRates

_HEAD_LINES: Final = 2
_TABLE_LINES: Final = 4
"""Number of lines of a table that are not rows: an empty line, the title, the names and a rule."""
_LEAST_ROWS: Final = 4
_STALE: Final = frozenset({"failed", "not reporting"})


def draw(overview: Overview, place: str, order: str, watched_count: int, lines: int | None = None) -> RenderableType:
    """Return a rich renderable for an overview.

    Args:
        lines: Number of lines on the screen, which limits the number of rows; None shows all rows.
    """
    parts: list[RenderableType] = [_head(overview, place)]
    groups_rows, topics_rows = len(overview.groups), len(overview.topics)
    if lines is not None:
        tables = 1 + bool(overview.groups) + bool(overview.pipelines)
        rows = max(lines - _HEAD_LINES - _TABLE_LINES * tables - len(overview.pipelines), _LEAST_ROWS)
        groups_rows = min(groups_rows, max(rows // 2, rows - topics_rows))
        topics_rows = rows - groups_rows
    parts += [Text(""), _topics(overview.topics[:topics_rows], len(overview.topics), order)]
    if overview.groups:
        parts += [Text(""), _groups(overview, groups_rows, watched_count)]
    if overview.pipelines:
        parts += [Text(""), _pipelines(overview.pipelines)]
    return Group(*parts)


def format_count(value: float) -> str:
    """Format a number, with a suffix from 10,000 on: 9,999, 12.3 k, 4.56 M."""
    if value < 10_000:
        return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
    for suffix in ("k", "M", "G"):
        value /= 1000
        if value < 999.5 or suffix == "G":
            break
    return f"{value:.3g} {suffix}"


def format_size(value: float) -> str:
    """Format a number of bytes with a unit: 999 B, 12.3 kB, 4.56 MB."""
    if value < 1000:
        return f"{value:.0f} B"
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.5 or unit == "TB":
            break
    return f"{value:.3g} {unit}"


def format_seconds(value: float) -> str:
    """Format a duration in the largest fitting unit: 12 s, 3 min, 4 h, 5 d."""
    for unit, seconds in (("d", 86_400), ("h", 3600), ("min", 60)):
        if value >= 2 * seconds:
            return f"{value / seconds:.0f} {unit}"
    return f"{value:.0f} s"


def _head(overview: Overview, place: str) -> Text:
    counts = [f"{format_count(overview.messages_per_second)} messages/s"]
    server = overview.server
    if "memory_bytes" in server:
        counts += [f"CPU {server['cpu_usage']:.0f} %", f"memory {format_size(server['memory_bytes'])}"]
        clients = server["clients_count"]
        counts += [f"{clients:,} client{'' if clients == 1 else 's'}", f"{format_size(server['messages_size_bytes'])} stored"]
    elif "brokers_count" in server:
        counts += [f"{server['brokers_count']} brokers", f"{server['partitions_count']:,} partitions"]
    at = datetime.fromtimestamp(overview.time_us / 1e6).astimezone()
    head = Text(f"{escape(place)}  {at:%H:%M:%S}\n", style="bold")
    return head.append("   ".join(counts), style="not bold")


def _table(title: str, shown: int, total: int) -> Table:
    more = f" ({shown} of {total:,})" if shown < total else ""
    return Table(
        title=f"{title}{more}", title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False
    )


def _topics(topics: Sequence[TopicRates], total: int, order: str) -> Table:
    table = _table(f"Topics by {order}", len(topics), total)
    table.add_column("topic", no_wrap=True, overflow="ellipsis", ratio=1)
    for name in ("partitions", "messages", "size", "in, messages/s", "in, bytes/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for found in topics:
        table.add_row(
            Text(escape(found.topic)),
            *(f"{found.partitions:,}", format_count(found.messages), format_size(found.size_bytes)),
            *(
                format_count(found.messages_per_second),
                "-" if found.bytes_per_second is None else format_size(found.bytes_per_second),
            ),
        )
    return table


def _groups(overview: Overview, rows: int, watched_count: int) -> Table:
    groups = overview.groups[:rows]
    is_part = watched_count < len(overview.topics)
    title = f"Groups of {watched_count:,} topics by lag" if is_part else "Groups by lag"
    table = _table(title, len(groups), len(overview.groups))
    table.add_column("topic", no_wrap=True, overflow="ellipsis", ratio=1)
    table.add_column("group", no_wrap=True, overflow="ellipsis", ratio=1)
    for name in ("members", "lag", "out, messages/s", "caught up in"):
        table.add_column(name, justify="right", no_wrap=True)
    for found in groups:
        until = found.caught_up_in_seconds
        table.add_row(
            *(Text(escape(found.topic)), Text(escape(found.group)), f"{found.members:,}"),
            Text(format_count(found.lag), style="" if until is not None else "red"),
            format_count(found.messages_per_second),
            "not shrinking" if until is None else "-" if not found.lag else format_seconds(until),
        )
    return table


def _pipelines(pipelines: Mapping[str, Mapping[str, Any]]) -> Table:
    table = _table("Replicate pipelines", len(pipelines), len(pipelines))
    table.add_column("checkpoint", no_wrap=True, overflow="ellipsis", ratio=1)
    for name in ("state", "micro-batches", "messages", "waiting", "dead", "failing tables"):
        table.add_column(name, justify="left" if name == "state" else "right", no_wrap=True)
    for checkpoint, status in pipelines.items():
        run, failing = status["run"] or {}, len(status["failing_tables"])
        table.add_row(
            Text(escape(checkpoint)),
            Text(escape(status["state"]), style="red" if status["state"].partition(":")[0] in _STALE else ""),
            *(format_count(run.get("batches", 0)), format_count(run.get("messages", 0))),
            *(format_count(status["waiting"]), format_count(status["dead"])),
            Text(str(failing), style="red" if failing else ""),
        )
    return table
