"""Continues a query after topics were deleted and recreated: resets only the offsets of these topics in the checkpoint.

A Spark query continues after its newest micro-batch. So a micro-batch without messages is added to the query's files. Its offsets
are the end offsets of the newest finished micro-batch, and the first offsets of the recreated topics. The messages of an
unfinished micro-batch are read again with another batch number, which does not change the tables.

    CHECKPOINT/spark/offsets/<n>    "v1" | metadata | per source, one line of offsets: {"<topic>": {"<partition>": offset}}
    CHECKPOINT/spark/commits/<n>    "v1" | metadata
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Final

from headstream.spark.source.offsets import SourceOffsets
from headstream.spark.source.options import parse_options
from headstream.spark.source.planning import open_view

_LOGGER: Final = logging.getLogger("headstream.spark")
_COMMIT: Final = 'v1\n{"nextBatchWatermarkMs":0}'


def accept_recreated_log(checkpoint: Path, options: dict[str, str]) -> None:
    """Make topics begin at their first message if the topics or the log were deleted and recreated."""
    newest = max(_numbers(checkpoint / "offsets"), default=None)
    if newest is None:
        return
    known = SourceOffsets.decode(json.loads(_lines(checkpoint / "offsets" / str(newest))[-1]))
    view = open_view(parse_options(options))
    try:
        now, available = view.offsets, view.available
    finally:
        view.close()
    is_other = known.log != now.log
    changed = {topic for topic, number in now.topics.items() if is_other or known.topics.get(topic, number) != number}
    if not changed and not is_other:
        return

    def change(positions: dict[str, Any]) -> None:
        before = SourceOffsets.decode(positions)
        for topic in {place.topic for place in before.positions} if is_other else changed:
            positions.pop(topic, None)
        for place, holds in available.items():
            if place.topic in changed:
                positions.setdefault(place.topic, {})[str(place.number)] = holds.first_offset
        kept = {} if is_other else before.topics
        positions["identity"] = {**kept, **{topic: now.topics[topic] for topic in changed}, "log": now.log}

    _add_batch(checkpoint, change)
    _warn_of_recreated(changed)


def begin_anew(checkpoint: Path, topics: Collection[str]) -> None:
    """Make topics of Spark's Kafka source begin at their first message."""
    if not topics or not _numbers(checkpoint / "offsets"):
        return

    def change(positions: dict[str, Any]) -> None:
        for topic in topics:
            positions.pop(topic, None)

    _add_batch(checkpoint, change)
    _warn_of_recreated(topics)


def _add_batch(checkpoint: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Add a finished micro-batch without messages to a query's files."""
    planned, finished = (_numbers(checkpoint / name) for name in ("offsets", "commits"))
    number = max(planned | finished) + 1
    base = max(planned & finished, default=None)
    version, metadata, *sources = _lines(checkpoint / "offsets" / str(max(planned) if base is None else base))
    changed = []
    for source in sources:
        positions: dict[str, Any] = json.loads(source)
        if base is None:  # no finished micro-batch: every topic is read from its beginning
            positions = {name: value for name, value in positions.items() if name == "identity"}
        change(positions)
        changed.append(json.dumps(positions))
    (checkpoint / "offsets" / str(number)).write_text("\n".join([version, metadata, *changed]), encoding="utf-8")
    (checkpoint / "commits").mkdir(exist_ok=True)
    commit = _COMMIT if not finished else (checkpoint / "commits" / str(max(finished))).read_text(encoding="utf-8")
    (checkpoint / "commits" / str(number)).write_text(commit, encoding="utf-8")


def _warn_of_recreated(topics: Collection[str]) -> None:
    _LOGGER.warning(
        "recreated topics are read from their beginning, as accepted; other positions in the checkpoint are unchanged: %s",
        ", ".join(sorted(topics)),
    )


def _numbers(directory: Path) -> set[int]:
    return {int(path.name) for path in directory.iterdir() if path.name.isdecimal()} if directory.is_dir() else set()


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines()
