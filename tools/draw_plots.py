"""Draw docs/plots/*.svg from the files of bench/results: python tools/draw_plots.py [--check]

A bar is a number of a line of a result: a plot names the file and, for each bar, a pattern whose first group is the number. So a
plot shows what was measured, and a result whose lines have changed is an error here.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.draw_pictures import write_pictures
from tools.svg_picture import Picture

__all__ = ["PLOTS", "Bar", "Plot", "draw", "read_value"]

_ROOT: Final = Path(__file__).parents[1]
PLACE: Final = _ROOT / "docs/plots"
_WIDTH: Final = 820
_LABEL: Final = 330
_FULL: Final = 380
_ROW: Final = 28
_NUMBER: Final = r"([\d.,]+)"
_BIG_ROWS: Final = r"^200,000 messages of 1 KB into noop, local\[2\]; Parquet[\s\S]*?"
"""The part of spark_source.txt about rows of 1 KB beside Parquet, up to a line of it."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of a plot.

    Args:
        label: What was measured.
        pattern: A regular expression, whose first group is the number in the result's text.
        ours: Whether it is Headstream's.
    """

    label: str
    pattern: str
    ours: bool = True


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot.

    Args:
        result: The file in bench/results, without `.txt`.
        title: What the bars are, for its first line and for a screen reader.
        unit: Of the numbers.
        bars: From top to bottom.
    """

    result: str
    title: str
    unit: str
    bars: tuple[Bar, ...]


def _server(label: str, line: str) -> tuple[Bar, Bar]:
    """Return the bars of a row of server.txt: Headstream's, and the plain server in C."""
    return (
        Bar(label, rf"^{re.escape(line)} +{_NUMBER} "),
        Bar("  a plain server in C", rf"^{re.escape(line)} .*?\| +{_NUMBER} ", ours=False),
    )


PLOTS: Final[dict[str, Plot]] = {
    "replicate": Plot(
        "replicate_apply",
        "Changes applied to a Delta table, thousand a second",
        "k/s",
        (
            Bar("merge, neighbouring keys: Headstream", rf"^merge.*beside each other: {_NUMBER} thousand"),
            Bar("  a hand-written MERGE of Spark", rf"^merge.*beside each other: .*hand-written MERGE {_NUMBER}", ours=False),
            Bar("merge, keys anywhere: Headstream", rf"^merge.*keys anywhere: {_NUMBER} thousand"),
            Bar("  a hand-written MERGE of Spark", rf"^merge.*keys anywhere: .*hand-written MERGE {_NUMBER}", ours=False),
            Bar("inserts only: Headstream", rf"^append.*a table with a key: {_NUMBER} thousand"),
            Bar("  a hand-written append of Spark", rf"^append.*a table with a key: .*hand-written append {_NUMBER}", ours=False),
        ),
    ),
    "sink": Plot(
        "spark_sink",
        "Rows written by Spark, 100 B each, million a second",
        "M/s",
        (
            Bar("payloads: Headstream's sink", rf"^ +headstream, payload alone +{_NUMBER} M"),
            Bar("  Spark's Kafka sink", rf"^ +kafka, value alone +{_NUMBER} M", ours=False),
            Bar("payloads and headers: Headstream's sink", rf"^ +headstream, headers array +{_NUMBER} M"),
            Bar("  Spark's Kafka sink", rf"^ +kafka, headers array +{_NUMBER} M", ours=False),
        ),
    ),
    "server": Plot(
        "server",
        "Messages through the server over TCP, a second",
        "/s",
        (
            *_server("send 1 x 100 B, 1 connection", "send 1 x 100 B, 1 connection"),
            *_server("poll 1 x 100 B, 1 connection", "poll 1 x 100 B, 1 connection"),
            *_server("send 1 x 100 B, 8 connections", "send 1 x 100 B, 8 connections"),
            *_server("poll 1 x 100 B, 8 connections", "poll 1 x 100 B, 8 connections"),
        ),
    ),
    "server-batches": Plot(
        "server",
        "Messages of 1,000 B through the server over TCP, 1,000 in a request, a second",
        "/s",
        (
            *_server("send, 1 connection", "send 1000 x 1000 B, 1 connection"),
            *_server("send, 4 connections", "send 1000 x 1000 B, 4 connections"),
            *_server("poll, 1 connection", "poll 1000 x 1000 B, 1 connection"),
            *_server("poll, 4 connections", "poll 1000 x 1000 B, 4 connections"),
        ),
    ),
    "filters": Plot(
        "filters",
        "Finding one message in a thousand, stored MB a second",
        "MB/s",
        (
            Bar("file, where: evaluated on stored bytes", rf"^ +file +where +[\d,]+ +[\d.]+ s +[\d.]+ s +{_NUMBER} MB/s"),
            Bar(
                "file, each message decoded in Python",
                rf"^ +file +messages +[\d,]+ +[\d.]+ s +[\d.]+ s +{_NUMBER} MB/s",
                ours=False,
            ),
            Bar("server, where", rf"^ +server, TCP +where +[\d,]+ +[\d.]+ s +[\d.]+ s +{_NUMBER} MB/s"),
            Bar(
                "server, each message sent and decoded",
                rf"^ +server, TCP +messages +[\d,]+ +[\d.]+ s +[\d.]+ s +{_NUMBER} MB/s",
                ours=False,
            ),
        ),
    ),
    "source-kafka": Plot(
        "spark_source",
        "Rows of 100 B read by Spark, million a second",
        "M/s",
        (
            Bar("payloads: Headstream's source", rf"^    headstream, payload only +{_NUMBER} M"),
            Bar("  Spark's Kafka source", rf"^  kafka, value only +{_NUMBER} M", ours=False),
            Bar("with headers: Headstream's source", rf"^    headstream, headers=array +{_NUMBER} M"),
            Bar("  Spark's Kafka source", rf"^  kafka, headers array +{_NUMBER} M", ours=False),
            Bar("one header as a column: Headstream's source", rf"^    headstream, one declared header +{_NUMBER} M"),
            Bar("  Spark's Kafka source", rf"^  kafka, one typed header +{_NUMBER} M", ours=False),
        ),
    ),
    "source": Plot(
        "spark_source",
        "Rows of 1 KB read by Spark, million a second",
        "M/s",
        (
            Bar("Headstream, offset and payload", _BIG_ROWS + rf"columns=offset,payload +{_NUMBER} M"),
            Bar("Headstream, all columns, typed headers", _BIG_ROWS + rf"headers=variant +{_NUMBER} M"),
            Bar("Parquet, offset and payload", _BIG_ROWS + rf"parquet, offset and payload +{_NUMBER} M", ours=False),
            Bar(
                "Parquet, all columns, headers as bytes",
                _BIG_ROWS + rf"parquet, the same columns +{_NUMBER} M",
                ours=False,
            ),
        ),
    ),
}


def read_value(text: str, bar: Bar) -> float:
    """Return the number of a bar.

    Args:
        text: The result.
        bar: Says where the number is.

    Raises:
        ValueError: The result has no such line, or the number is 0.
    """
    found = re.search(bar.pattern, text, re.MULTILINE)
    value = float(found[1].replace(",", "")) if found else 0.0
    if not value:
        raise ValueError(f"no line of the result has a number for {bar.label.strip()!r}: {bar.pattern}")
    return value


def draw(plot: Plot) -> str:
    """Return a plot as SVG; the longest bar has the full width."""
    text = (_ROOT / f"bench/results/{plot.result}.txt").read_text("utf-8")
    values = [read_value(text, bar) for bar in plot.bars]
    told = "; ".join(f"{bar.label.strip()} {value:,g} {plot.unit}" for bar, value in zip(plot.bars, values, strict=True))
    picture = Picture(_WIDTH, 44 + _ROW * len(values), f"{plot.title}: {told}")
    picture.text(10, 24, plot.title, "title")
    for number, (bar, value) in enumerate(zip(plot.bars, values, strict=True)):
        y = 40 + _ROW * number
        width = max(2, round(_FULL * value / max(values)))
        picture.text(10 + 14 * bar.label.startswith(" "), y + 15, bar.label.strip(), "" if bar.ours else "small")
        picture.box(_LABEL, y, width, 20, kind="main" if bar.ours else "box")
        picture.text(_LABEL + width + 8, y + 15, f"{value:,g} {plot.unit}", "" if bar.ours else "small")
    return picture.svg()


def main(arguments: list[str]) -> int:
    """Write the plots, or return 1 if a written one is another."""
    pictures = {name: draw(plot) for name, plot in PLOTS.items()}
    return write_pictures(pictures, PLACE, "draw_plots.py", only_check="--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
