"""Draw docs/pictures/*.svg: python tools/draw_pictures.py [--check]

A picture is boxes, arrows and texts on a grid of pixels. Colours follow the reader's light or dark scheme.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import Final

PLACE: Final = Path(__file__).parents[1] / "docs/pictures"
_STYLE: Final = """
text { font: 13px system-ui, sans-serif; fill: #1c2430 }
.title { font-weight: 600 } .small { font-size: 11.5px; fill: #55606e } .code { font: 12px ui-monospace, monospace }
.box { fill: #f4f6fa; stroke: #8a96a8 } .main { fill: #e3ecfb; stroke: #3f6fc4 } .done { fill: #e2f3e6; stroke: #3c8a53 }
.bad { fill: #fbe7e4; stroke: #c2503f } .line { stroke: #55606e; fill: none; stroke-width: 1.4 } .head { fill: #55606e }
@media (prefers-color-scheme: dark) {
text { fill: #e6eaf0 } .small { fill: #a7b2c2 } .box { fill: #232a35; stroke: #66738a } .main { fill: #1d3153; stroke: #6f9be8 }
.done { fill: #1c3a27; stroke: #5fb37a } .bad { fill: #45231e; stroke: #dc7b6c } .line { stroke: #a7b2c2 } .head { fill: #a7b2c2 }
}
"""
_LINE: Final = 17


class Picture:
    """An SVG picture.

    Args:
        width: In pixels.
        height: In pixels.
        title: What a screen reader says.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"',
            ' role="img">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path class="head" d="M0 0L8 4L0 8z"/></marker></defs>',
        ]

    def box(
        self, x: int, y: int, width: int, height: int, title: str = "", *lines: str, kind: str = "box", code: bool = False
    ) -> None:
        """Draw a box with a title and lines of text, from its upper left corner."""
        self._parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>')
        if title:
            self.text(x + 12, y + 21, title, "code" if code else "title")
        for number, line in enumerate(lines):
            self.text(x + 12, y + 21 + _LINE * (number + bool(title)), line, "small")

    def text(self, x: int, y: int, text: str, kind: str = "", *, anchor: str = "start") -> None:
        """Write one line; x is its beginning, middle or end."""
        self._parts.append(f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>')

    def arrow(self, *points: tuple[int, int]) -> None:
        """Draw an arrow along points."""
        path = "L".join(f"{x} {y}" for x, y in points)
        self._parts.append(f'<path class="line" d="M{path}" marker-end="url(#head)"/>')

    def line(self, *points: tuple[int, int]) -> None:
        """Draw a line along points."""
        self._parts.append(f'<path class="line" d="M{"L".join(f"{x} {y}" for x, y in points)}"/>')

    def svg(self) -> str:
        """Return the picture."""
        return "\n".join([*self._parts, "</svg>", ""])


def draw_log() -> Picture:
    """Draw the files of a log."""
    picture = Picture(
        820, 372, "The files of a log: a directory with a catalog, and for each partition segments and their indexes"
    )
    picture.box(10, 10, 800, 352, "/var/lib/shop", code=True)
    picture.box(26, 46, 236, 52, "headstream.json", "the log's identity and format", code=True)
    picture.box(26, 110, 236, 69, "catalog.sqlite", "streams, topics, users, tokens,", "states with reason and author", code=True)
    picture.box(26, 191, 236, 52, "staged/  inbox/", "batches committed together", code=True)
    picture.box(
        26, 255, 236, 69, "headstream.lock", "held by the one process that writes;", "any number of processes read", code=True
    )
    picture.box(278, 46, 516, 300, "streams/1/3/2/    a partition of a topic", code=True, kind="main")
    picture.box(294, 84, 484, 98, "00000000000000000000.log", code=True)
    for number, (left, width, title) in enumerate(
        ((306, 146, "send: 3 messages"), (458, 190, "send: 5 messages"), (654, 112, "send: 2"))
    ):
        picture.box(left, 114, width, 56, title, f"offsets {('0 to 2', '3 to 7', '8, 9')[number]}", kind="done")
    picture.box(294, 196, 484, 60, "00000000000000000000.index", code=True)
    picture.text(306, 241, "for each send: position, size, offset, count, time, CRC-32C; a seal at the end", "small")
    picture.box(294, 270, 238, 60, "00000000000000000010.log", "the newest segment: appended to", code=True)
    picture.box(540, 270, 238, 60, "producers", "each one's newest 5 batches", code=True)
    return picture


def draw_life() -> Picture:
    """Draw the states of a message."""
    picture = Picture(
        820,
        268,
        "The states of a message: available messages are delivered, unavailable, poisoned and marked ones are stepped over",
    )
    picture.box(20, 92, 150, 62, "sent", "id, key, headers,", "payload")
    picture.box(250, 92, 180, 62, "available", "stored with offset, time,", "CRC-32; delivered", kind="done")
    picture.box(560, 12, 240, 62, "unavailable", "held back: delivered again once", "it is set to available")
    picture.box(560, 92, 240, 62, "poisoned", "breaks its consumers; stepped over,", "shown to those who ask", kind="bad")
    picture.box(560, 172, 240, 62, "marked_for_deletion", "stepped over; removed from the disk", "by compaction")
    picture.arrow((170, 123), (248, 123))
    picture.text(209, 115, "append", "small", anchor="middle")
    for y in (43, 123, 203):
        picture.arrow((430, 123), (558, y))
    picture.text(484, 60, "set_state", "code", anchor="middle")
    picture.text(470, 196, "with reason,", "small", anchor="middle")
    picture.text(470, 212, "author and time", "small", anchor="middle")
    picture.line((680, 234), (680, 252), (340, 252))
    picture.arrow((340, 252), (340, 156))
    picture.text(440, 246, "and back", "small", anchor="middle")
    return picture


def draw_pipeline() -> Picture:
    """Draw the way of a change from the source database to a table."""
    picture = Picture(
        900,
        330,
        "The pipeline: Replicate's messages pass through a log and Spark into Delta tables; what cannot be applied yet waits",
    )
    picture.box(10, 40, 130, 62, "database", "the source's tables")
    picture.box(10, 150, 130, 62, "Qlik Replicate", "captures changes", "as messages")
    picture.arrow((75, 102), (75, 148))
    picture.box(180, 60, 150, 130, "log", "topic cdc/data:", "changes, loads", "topic cdc/metadata:", "schemas", kind="main")
    picture.arrow((140, 181), (160, 181), (160, 125), (178, 125))
    picture.box(370, 40, 200, 170, "micro-batch in Spark", kind="main")
    for number, line in enumerate(
        (
            "1  envelope, schema by id",
            "2  Avro or JSON to columns",
            "3  changes of each table,",
            "    one for each key",
            "4  merge by the sequence",
        )
    ):
        picture.text(382, 86 + _LINE * number, line, "small")
    picture.text(382, 184, "tables side by side", "small")
    picture.arrow((330, 125), (368, 125))
    picture.box(
        620,
        30,
        270,
        92,
        "Delta tables",
        "rows of type 1 or 2, equal to the source",
        "_hs_sequence: the newest change applied",
        "deletions are kept for late changes",
        kind="done",
    )
    picture.box(620, 134, 270, 44, "change tables", "each change once, as received", kind="done")
    picture.arrow((570, 85), (618, 76))
    picture.arrow((570, 140), (618, 154))
    picture.box(370, 248, 200, 62, "waiting", "for a schema, a table, a load,", "a transaction's other events")
    picture.box(
        620,
        248,
        270,
        62,
        "dead letters",
        "with topic, partition, offset, reason;",
        "tried again by replicate redrive",
        kind="bad",
    )
    picture.arrow((430, 210), (430, 246))
    picture.arrow((510, 248), (510, 212))
    picture.arrow((570, 279), (618, 279))
    picture.box(180, 248, 150, 62, "schema zone", "every schema seen,", "by its id")
    picture.arrow((255, 190), (255, 246))
    picture.arrow((330, 265), (350, 265), (350, 180), (368, 180))
    return picture


def draw_traces() -> Picture:
    """Draw the spans of messages, of a micro-batch and of its merges, with the links between traces."""
    picture = Picture(
        900,
        366,
        "Traces: a server's append belongs to the trace of its message, a micro-batch to that of its first sampled message, "
        "linked to those of the others",
    )
    picture.text(10, 20, "time →", "small")
    for top, name, about in ((34, "trace of message 1", "the first sampled one"), (190, "trace of message 2", "another one")):
        picture.text(10, top + 21, name, "title")
        picture.text(10, top + 21 + _LINE, about, "small")
    picture.box(180, 36, 124, 34, "send cdc/data", kind="main", code=True)
    picture.box(226, 84, 130, 34, "append cdc/data", kind="main", code=True)
    picture.text(226, 134, "in the server", "small")
    picture.arrow((206, 70), (206, 101), (224, 101))
    picture.box(400, 36, 480, 34, "process micro-batch", kind="main", code=True)
    picture.box(520, 84, 180, 34, "merge SHOP.orders", kind="done", code=True)
    picture.box(520, 128, 290, 34, "merge SHOP.order_lines", kind="done", code=True)
    picture.arrow((304, 53), (398, 53))
    picture.arrow((450, 70), (450, 101), (518, 101))
    picture.arrow((450, 70), (450, 145), (518, 145))
    picture.text(528, 178, "each merge is one commit of a table", "small")
    picture.box(200, 192, 124, 34, "send cdc/data", kind="main", code=True)
    picture.box(246, 240, 130, 34, "append cdc/data", kind="main", code=True)
    picture.arrow((226, 226), (226, 257), (244, 257))
    picture.box(400, 192, 480, 34, "applied", kind="main", code=True)
    picture.arrow((324, 209), (398, 209))
    picture.line((860, 192), (860, 72))
    picture.text(850, 180, "links, both ways", "small", anchor="end")
    picture.text(10, 317, "a consumer", "title")
    picture.text(10, 317 + _LINE, "of the same topic", "small")
    picture.box(400, 298, 150, 34, "receive cdc/data", kind="main", code=True)
    picture.box(590, 298, 150, 34, "process cdc/data", kind="main", code=True)
    picture.arrow((210, 226), (210, 315), (398, 315))
    picture.arrow((210, 226), (210, 348), (665, 348), (665, 334))
    return picture


PICTURES: Final[dict[str, Callable[[], Picture]]] = {
    "log": draw_log,
    "message-states": draw_life,
    "pipeline": draw_pipeline,
    "traces": draw_traces,
}


def write_pictures(pictures: Mapping[str, str], place: Path, command: str, *, only_check: bool) -> int:
    """Write pictures, or only compare them with those that are written; return 1 if one is another.

    Args:
        pictures: The name of each, and its SVG.
        place: Their directory.
        command: The tool that writes them, for the error.
        only_check: Whether nothing is written.
    """
    for name, made in pictures.items():
        path = place / f"{name}.svg"
        if not only_check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(made, "utf-8")
        elif not path.is_file() or path.read_text("utf-8") != made:
            sys.stderr.write(f"{path.name} is out of date: run python tools/{command}\n")
            return 1
    return 0


def main(arguments: list[str]) -> int:
    """Write the pictures, or return 1 if a written one is another."""
    pictures = {name: draw().svg() for name, draw in PICTURES.items()}
    return write_pictures(pictures, PLACE, "draw_pictures.py", only_check="--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
