"""The dead letter as a Delta table: the dead-letter topic of the pipeline's own log, a row a message, each once.

Each commit remembers up to which offset of the topic the table has come, so that it never skips and never repeats one:

    reason | topic, partition, offset, timestamp: where the message came from | schema_id | key, headers, payload: its bytes
    dead_letter_offset: its offset in the dead-letter topic
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from headstream.errors import StorageError
from headstream.spark.replicate.own_log import OwnLog
from headstream.spark.replicate.parking import DEAD_LETTER_TOPIC

__all__ = ["DeadLetterTable"]

_APPLICATION: Final = "headstream/dead-letter"
_COLUMNS: Final = (
    "reason", "topic", "partition", "offset", "timestamp", "schema_id", "key", "headers", "payload", "dead_letter_offset",
)  # fmt: skip


class DeadLetterTable:
    """The table of one pipeline.

    Args:
        path: Its directory.
        log: The pipeline's own log.
        pipeline_id: The pipeline's identity: a table may be shared by several.
    """

    def __init__(self, path: Path, log: OwnLog, pipeline_id: str) -> None:
        self._path = path
        self._log = log
        self._application = f"{_APPLICATION}/{pipeline_id}"
        self._until: int | None = None

    def follow(self) -> int:
        """Append what has come to the dead letter since the last time; return how many messages.

        Raises:
            StorageError: the table cannot be written.
        """
        end = self._log.end(DEAD_LETTER_TOPIC)
        if end == self._until:
            return 0
        try:
            first = self._read_until()
            for messages in self._log.read(DEAD_LETTER_TOPIC, first, end):
                self._append(messages)
        except (DeltaError, OSError) as error:
            raise StorageError(f"the table of the dead letter cannot be written: {error}", where=str(self._path)) from error
        self._until = end
        return end - first

    def _read_until(self) -> int:
        if not DeltaTable.is_deltatable(str(self._path)):
            return 0
        return DeltaTable(str(self._path)).transaction_version(self._application) or 0

    def _append(self, messages: pa.Table) -> None:
        renamed = messages.rename_columns(
            [{"timestamp_us": "timestamp", "log_offset": "dead_letter_offset"}.get(name, name) for name in messages.schema.names]
        )
        place = renamed.schema.get_field_index("timestamp")
        times = renamed["timestamp"].cast(pa.timestamp("us", "UTC"))
        rows = renamed.set_column(place, "timestamp", times).select(list(_COLUMNS))
        rows = rows.cast(pa.schema([field.with_nullable(True) for field in rows.schema]))
        until = rows["dead_letter_offset"][-1].as_py() + 1
        remembered = CommitProperties(app_transactions=[Transaction(self._application, until)])
        self._path.parent.mkdir(parents=True, exist_ok=True)
        write_deltalake(str(self._path), rows, mode="append", commit_properties=remembered)
