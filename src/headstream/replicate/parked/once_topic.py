"""A topic of the pipeline's own log that contains each message once, even after a crash between log and ledger writes.

The ledger stores the topic's recorded end (`mark.topic.<topic>`), in the transaction that records the appended messages.
Messages beyond it at the pipeline's start were appended by an interrupted step; when that step is repeated, it finds
its messages there:

    {"end": 1200, "orphans": [[1180, 1200]]}
"""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa

from headstream.replicate.columns.large_values import take_rows
from headstream.replicate.columns.raw import COORDINATE_COLUMNS, RAW_SCHEMA, match_rows
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.parked.own_log import OwnLog

__all__ = ["OnceTopic"]


class OnceTopic:
    """One topic.

    Args:
        log: The pipeline's own log.
        ledger: The pipeline's ledger.
        topic: The existing topic.
    """

    def __init__(self, log: OwnLog, ledger: Ledger, topic: str) -> None:
        self.topic = topic
        self.mark = f"topic.{topic}"
        self._log = log
        known = json.loads(ledger.mark(self.mark) or '{"end": 0, "orphans": []}')
        self._orphans: list[list[int]] = known["orphans"]
        end = log.end(topic)
        if end > known["end"]:
            self._orphans.append([known["end"], end])
            ledger.set_mark(self.mark, self._state())

    def put(self, messages: pa.Table) -> tuple[pa.Table, str]:
        """Append messages, except those that an interrupted step had already appended.

        Args:
            messages: RAW_SCHEMA, one row or more.

        Returns:
            The messages with a column `log_offset`, and the value for `mark` in the transaction that records them.
        """
        offsets = np.full(messages.num_rows, -1, np.int64)
        for orphan in list(self._orphans):
            columns = [*COORDINATE_COLUMNS, "log_offset"]
            parts = [part.select(columns) for part in self._log.read(self.topic, *orphan)]
            if not parts:  # erased meanwhile
                continue
            lost = pa.concat_tables(parts)
            rows, places = match_rows(messages, lost)
            if len(rows):
                offsets[rows.to_numpy()] = lost["log_offset"].to_numpy()[places.to_numpy()]
                self._orphans.remove(orphan)
        fresh = np.flatnonzero(offsets < 0)
        if fresh.size:
            placed = self._log.put(self.topic, take_rows(messages, pa.array(fresh)).select(RAW_SCHEMA.names))
            offsets[fresh] = np.arange(placed.from_offset, placed.until_offset)
        return messages.append_column("log_offset", pa.array(offsets)), self._state()

    def _state(self) -> str:
        return json.dumps({"end": self._log.end(self.topic), "orphans": self._orphans})
