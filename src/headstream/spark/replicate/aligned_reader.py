"""Micro-batches whose partitions end at one log time: after each, everything logged before that time is read.

So rows of full loads, whose place follows from what was logged before them (loads.py), need not wait for partitions that are
behind. The time stands beside the topics' identities in the query's offsets; a batch that is run again has it again:

    {"cdc/data": {"1": 123, "2": 118}, "identity": {"log": "3b1f...", "cdc/data": "1/4", "read until": "1690000000000000"}}

It is that of the newest message known before the ends of the partitions were asked for: what is appended to any of them later
is not older. With more than a micro-batch may take, it is the latest time up to which all partitions fit. Where more messages of
one time come first than fit, the batch ends as any other does, and the time is theirs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from pyspark.sql.streaming.datasource import ReadLimit

from headstream.errors import CorruptLogError
from headstream.spark.limits import Limits, count_waiting
from headstream.spark.log_view import LogView
from headstream.spark.offsets import Offsets, Place
from headstream.spark.options import SourceOptions
from headstream.spark.stream_reader import HeadstreamStreamReader

__all__ = ["AlignedStreamReader", "find_end", "planned_until"]

_READ_UNTIL: Final = "read until"
_FULL_ENOUGH: Final = 0.75
"""The share of a micro-batch's messages at which a better time is no longer searched for: each try asks every partition."""


class AlignedStreamReader(HeadstreamStreamReader):
    """Plans the micro-batches of a stream so that all partitions are read up to one log time.

    Args:
        options: What to read.
    """

    def __init__(self, options: SourceOptions) -> None:
        super().__init__(options)
        self._newest_us: int | None = None
        self._target_us: int | None = None
        self._begun_us = 0
        self._until_us: int | None = None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Remember what is there now: the query ends when that is read."""
        self._target_us = _newest_time(self._refresh())
        super().prepareForTriggerAvailableNow()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return where the next micro-batch ends, and until which log time everything is read with it.

        Args:
            start: Where it begins.
            limit: As of HeadstreamStreamReader.

        Raises:
            LogError: the log or a topic was deleted and made again.
        """
        begin = Offsets.decode(start)
        self._begun_us, self._until_us = int(begin.topics.get(_READ_UNTIL, "0")), None
        view = self._refresh()
        # Before super() looks again, and only where there is something new: a look at each partition's newest message.
        self._newest_us = _newest_time(view) if count_waiting(begin.positions, view.offsets.positions) else None
        end = Offsets.decode(super().latestOffset(start, limit))
        if dict(end.positions) == dict(begin.positions):
            return start
        until_us = max(self._begun_us, self._until_us or 0)
        return replace(end, topics={**end.topics, _READ_UNTIL: str(until_us)}).encode()

    def _admit(self, view: LogView, known: Mapping[Place, int], latest: Mapping[Place, int], limits: Limits) -> dict[Place, int]:
        if self._newest_us is None:  # what has come since the look before is for the next micro-batch
            return {place: min(end, known[place]) for place, end in latest.items()}
        newest_us = self._newest_us if self._target_us is None else min(self._newest_us, self._target_us)

        def ends_at(until_us: int) -> dict[Place, int]:
            found = {place: min(end, view.find_time(place, until_us)) for place, end in latest.items()}
            return {place: max(end, min(known[place], latest[place])) for place, end in found.items()}

        def fullness(end: Mapping[Place, int]) -> float:
            count = sum(count_waiting(known, end).values())
            shares = [count / limits.max_offsets] if limits.max_offsets is not None else []
            if limits.max_bytes is not None:
                shares.append(sum(view.size_between(place, known[place], end[place]) for place in end) / limits.max_bytes)
            return max(shares, default=0.0)

        try:
            self._until_us, end = find_end(self._begun_us, newest_us + 1, ends_at, fullness)
        except CorruptLogError:  # whoever reads there reports the damage
            return super()._admit(view, known, latest, limits)
        if count_waiting(known, end):
            return end
        return super()._admit(view, known, ends_at(newest_us + 1), limits)


def find_end(
    low_us: int, high_us: int, ends_at: Callable[[int], dict[Place, int]], fullness: Callable[[Mapping[Place, int]], float]
) -> tuple[int, dict[Place, int]]:
    """Return the latest time found up to which all partitions fit into a micro-batch, and where they end then.

    Args:
        low_us: A time before which everything is read.
        high_us: The latest time that may be, above `low_us` where there is anything to read.
        ends_at: A time -> where each partition ends that is read up to it.
        fullness: Such ends -> what they take of the most that may be: they fit up to 1.
    """
    end = ends_at(high_us)
    if fullness(end) <= 1:
        return high_us, end
    best_us, best = low_us, ends_at(low_us)
    while high_us - best_us > 1:
        middle_us = (best_us + high_us) // 2
        end = ends_at(middle_us)
        share = fullness(end)
        if share > 1:
            high_us = middle_us
            continue
        best_us, best = middle_us, end
        if share >= _FULL_ENOUGH:
            break
    return best_us, best


def planned_until(checkpoint: Path, batch_id: int) -> int | None:
    """Return the log time until which everything is read with a micro-batch; None where its offsets do not say.

    Args:
        checkpoint: The Spark query's checkpoint.
        batch_id: The micro-batch, which is planned.
    """
    try:
        lines = (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()
        value = json.loads(lines[-1])["identity"][_READ_UNTIL]
    except (OSError, ValueError, LookupError, TypeError):  # planned by an older Headstream, or by another source
        return None
    return int(value)


def _newest_time(view: LogView) -> int | None:
    times = (view.last_time(place) for place in view.available)
    return max((time_us for time_us in times if time_us is not None), default=None)
