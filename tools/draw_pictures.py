"""Draw docs/pictures/*.svg: python tools/draw_pictures.py [--check]"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.draw_dialects import draw_dialects
from tools.svg_picture import LINE, Picture

PLACE: Final = Path(__file__).parents[1] / "docs/pictures"


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
        picture.text(382, 86 + LINE * number, line, "small")
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
    picture.box(180, 248, 150, 62, "schema store", "every schema seen,", "by its id")
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
        picture.text(10, top + 21 + LINE, about, "small")
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
    picture.text(10, 317 + LINE, "of the same topic", "small")
    picture.box(400, 298, 150, 34, "receive cdc/data", kind="main", code=True)
    picture.box(590, 298, 150, 34, "process cdc/data", kind="main", code=True)
    picture.arrow((210, 226), (210, 315), (398, 315))
    picture.arrow((210, 226), (210, 348), (665, 348), (665, 334))
    return picture


PICTURES: Final[dict[str, Callable[[], Picture]]] = {
    "log": draw_log,
    "dialects": draw_dialects,
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
