"""Draw docs/pictures/trace.svg from the spans of docs/pictures/trace.json: python tools/draw_trace.py [--check]

The spans are those that an OpenTelemetry Collector received over OTLP, one a line, with the beginnings of their ids.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

if __package__ is None:
    sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.draw_pictures import PLACE, write_pictures
from tools.svg_picture import Picture

__all__ = ["draw"]

_WIDTH: Final = 900
_ROW: Final = 24
_NAME, _SERVICE, _BARS, _BARS_END = 10, 270, 400, 790
_INDENT: Final = 16
_KINDS: Final = {"shop": "main", "headstream-server": "box", "billing": "main", "replicate": "done"}


def draw(spans: list[dict[str, Any]]) -> Picture:
    """Return a picture of traces: a row a span, below its parent.

    Args:
        spans: The spans.
    """
    traces = dict.fromkeys(span["trace"] for span in spans)
    rows = [row for trace in traces for row in _rows_of([span for span in spans if span["trace"] == trace])]
    end_us = max(span["start_us"] + span["duration_us"] for span in spans)
    picture = Picture(_WIDTH, _ROW * (len(rows) + len(traces)) + 44, "Two traces as a collector has received them")
    picture.text(_SERVICE, 20, "service", "small")
    picture.text(_BARS, 20, "0 s", "small")
    picture.text(_BARS_END, 20, f"{end_us / 1e6:.1f} s", "small", anchor="end")
    picture.text(_WIDTH - 10, 20, "duration", "small", anchor="end")
    y, shown = 44, ""
    for number, (depth, span) in enumerate(rows):
        if span["trace"] != shown:
            shown = span["trace"]
            picture.text(_NAME, y, f"trace {shown}…", "title")
            y += _ROW
        picture.text(_NAME + _INDENT * depth, y, span["name"], "code")
        picture.text(_SERVICE, y, span["service"], "small")
        x = _place(span["start_us"], end_us)
        width = max(2, _place(span["start_us"] + span["duration_us"], end_us) - x)
        picture.box(x, y - 11, width, 13, kind=_KINDS[span["service"]])
        picture.text(_WIDTH - 10, y, _spell(span["duration_us"]), "small", anchor="end")
        linked = [other for other, (_, one) in enumerate(rows) if one["span"] in span["links"]]
        if linked and linked[0] < number:
            target = y - _ROW * (number - linked[0] + (rows[linked[0]][1]["trace"] != shown))
            picture.arrow((x + width, y - 5), (x + width + 10, y - 5), (x + width + 10, target - 5), (x + width + 2, target - 5))
        y += _ROW
    return picture


def _rows_of(spans: list[dict[str, Any]], parent: str = "", depth: int = 0) -> list[tuple[int, dict[str, Any]]]:
    """Return the spans below a parent, each followed by its own; a span whose parent is not among them is a root."""
    known = {span["span"] for span in spans}
    rows = []
    for span in spans:
        if span["parent"] == parent or (parent == "" and span["parent"] not in known):
            rows += [(depth, span), *_rows_of(spans, span["span"], depth + 1)]
    return rows


def _place(us: int, end_us: int) -> int:
    return round(_BARS + (_BARS_END - _BARS) * us / end_us)


def _spell(us: int) -> str:
    return f"{us} us" if us < 1000 else f"{us / 1000:.1f} ms" if us < 1_000_000 else f"{us / 1e6:.2f} s"


def main(arguments: list[str]) -> int:
    """Write the picture, or return 1 if the written one is another."""
    spans = json.loads((PLACE / "trace.json").read_text("utf-8"))
    return write_pictures({"trace": draw(spans).svg()}, PLACE, "draw_trace.py", only_check="--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
