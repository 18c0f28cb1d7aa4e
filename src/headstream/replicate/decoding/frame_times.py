"""The log time up to which a stream is read, for sources that plan only by offsets, such as Spark's Kafka source.

Each partition in the planned offsets has one of these bounds:

    the newest log time read, minus the largest decrease so far: later messages are not older
    if the partition was read up to its end when a trigger began: messages appended later are not older than the newest
        message read by then, nor, apart from clock skew, than the trigger

All messages before the lowest bound have been read. LogAppendTime never decreases. Producers set CreateTime: if the time of a
message decreases by more than any earlier decrease, the message is late, see loads.py.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

CLOCK_SLACK_US: Final = 60_000_000
"""Maximum clock skew between the driver and the log, microseconds."""
_KEPT_BATCHES: Final = 8

Partition = tuple[str, int]


class PartitionTimes(NamedTuple):
    """Log times of a partition's messages, microseconds since 1970 UTC, and the number of messages.

    `back_us` is the largest decrease between successive times.
    """

    topic: str
    partition: int
    least_us: int
    most_us: int
    back_us: int
    messages: int = 0


class FrameTimes:
    """Tracks the log times of a stream.

    Args:
        checkpoint: The Spark query's checkpoint.
        progress: Returns the query's last progress report, or None.
        load: Returns the last saved string.
        save: Saves a string.
    """

    def __init__(
        self,
        checkpoint: Path,
        progress: Callable[[], Mapping[str, Any] | None],
        load: Callable[[], str | None],
        save: Callable[[str], None],
    ) -> None:
        self._checkpoint = checkpoint
        self._progress = progress
        self._save = save
        kept = json.loads(load() or '{"batch": -1, "reached": []}')
        self._batch = int(kept["batch"])
        self._reached: dict[Partition, tuple[int, int]] = {
            (topic, number): (most_us, back_us) for topic, number, most_us, back_us in kept["reached"]
        }
        self._seen_us: dict[int, int] = {}

    def read_until(self, batch_id: int, times: Iterable[PartitionTimes]) -> int | None:
        """Return the log time before which all partitions are completely read after a micro-batch; None if unknown.

        Args:
            batch_id: Number of a planned micro-batch.
            times: The log times of its messages, in offset order.
        """
        if batch_id > self._batch:  # else it is a rerun
            self._observe(batch_id, times)
        self._seen_us[batch_id] = max((most_us for most_us, _ in self._reached.values()), default=0)
        self._seen_us = dict(sorted(self._seen_us.items())[-_KEPT_BATCHES:])
        planned = self._planned(batch_id)
        caught_up, caught_up_us = self._caught_up(planned)
        found = []
        for partition in planned:
            most_us, back_us = self._reached.get(partition, (0, 0))
            found.append(max(most_us - back_us, caught_up_us if partition in caught_up else 0))
        return min(found, default=None)

    def _observe(self, batch_id: int, times: Iterable[PartitionTimes]) -> None:
        for one in times:
            most_us, back_us = self._reached.get((one.topic, one.partition), (one.least_us, 0))
            back_us = max(back_us, one.back_us, most_us - one.least_us)
            self._reached[one.topic, one.partition] = max(most_us, one.most_us), back_us
        self._batch = batch_id
        reached = [[*partition, *known] for partition, known in sorted(self._reached.items())]
        self._save(json.dumps({"batch": batch_id, "reached": reached}))

    def _planned(self, batch_id: int) -> dict[Partition, int]:
        """Return the end of each partition in a micro-batch."""
        try:
            lines = (self._checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8").splitlines()[2:]
            sources = [_positions(json.loads(line)) for line in lines]
        except (OSError, ValueError):
            return {}
        return {} if not all(sources) else {place: end for source in sources for place, end in source.items()}

    def _caught_up(self, planned: Mapping[Partition, int]) -> tuple[set[Partition], int]:
        """Return the partitions that are read up to their ends at the newest trigger, and the resulting bound."""
        progress = self._progress()
        if progress is None:
            return set(), 0
        latest: dict[Partition, int] = {}
        for source in progress["sources"]:
            value = source.get("latestOffset")
            try:
                latest |= _positions(json.loads(value) if isinstance(value, str) else value)
            except ValueError:
                return set(), 0
        begun_us = int(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1e6) - CLOCK_SLACK_US
        since_us = max(begun_us, self._seen_us.get(progress["batchId"] - 1, 0))
        return {place for place, end in latest.items() if place in planned and planned[place] >= end}, since_us


def _positions(value: object) -> dict[Partition, int]:
    """Return the offsets of Spark's Kafka source, {"topic": {"0": 123}}; empty if they have a different form."""
    if not isinstance(value, Mapping):
        return {}
    found = {}
    for topic, partitions in value.items():
        if not isinstance(partitions, Mapping):
            return {}
        for number, end in partitions.items():
            if not isinstance(end, int):
                return {}
            found[str(topic), int(number)] = end
    return found


def times_of(topics: Any, partitions: npt.NDArray[np.int64], times_us: npt.NDArray[np.int64]) -> list[PartitionTimes]:
    """Return the messages' log times by partition.

    Args:
        topics: Topics of the messages, an Arrow array.
        times_us: Log times of the messages, in offset order.
    """
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64) << 32 | partitions
    found = []
    for code in np.unique(codes).tolist():
        times = times_us[codes == code]
        back_us = int((np.maximum.accumulate(times) - times).max())
        found.append(
            PartitionTimes(names[code >> 32], code & 0xFFFFFFFF, int(times.min()), int(times.max()), back_us, len(times))
        )
    return found
