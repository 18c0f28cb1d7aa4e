"""Copies the dead-letter topic of the pipeline's own log to a Delta table, one row per message.

Each commit records the topic's offset up to which messages are copied, so no message is skipped or repeated. Columns:

    reason | topic, partition, offset, timestamp (the message's origin) | schema_id | key, headers, payload (bytes)
    dead_letter_offset (offset in the dead-letter topic)
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, Transaction, write_deltalake
from deltalake.exceptions import DeltaError

from headstream.replicate.parked.own_log import OwnLog
from headstream.replicate.parked.parking import DEAD_LETTER_TOPIC
from headstream.replicate.storage.delta_places import delta_options, make_parent, open_table
from headstream.replicate.storage.places import Place, failure, shown_cause

_APPLICATION: Final = "headstream/dead-letter"
_COLUMNS: Final = (
    "reason", "topic", "partition", "offset", "timestamp", "schema_id", "key", "headers", "payload", "dead_letter_offset",
)  # fmt: skip


class DeadLetterTable:
    """The dead-letter table of one pipeline; several pipelines can share a table."""

    def __init__(self, path: Place, log: OwnLog, pipeline_id: str) -> None:
        self._path = path
        self._log = log
        self._application = f"{_APPLICATION}/{pipeline_id}"
        self._until: int | None = None

    @property
    def description(self) -> str:
        """The name of this copy in errors and log messages."""
        return "the dead-letter table"

    @property
    def is_behind(self) -> bool:
        """Whether the table may lack dead letters."""
        return self._log.end(DEAD_LETTER_TOPIC) != self._until

    def follow(self) -> int:
        """Append new dead letters, and return their number."""
        end = self._log.end(DEAD_LETTER_TOPIC)
        if end == self._until:
            return 0
        try:
            first = self._read_until()
            for messages in self._log.read(DEAD_LETTER_TOPIC, first, end):
                self._append(messages)
        except (DeltaError, OSError) as error:
            what = "the dead-letter table cannot be written"
            raise failure(self._path, what, str(error)) from shown_cause(self._path, error)
        self._until = end
        return end - first

    def _read_until(self) -> int:
        table = open_table(self._path)
        return 0 if table is None else table.transaction_version(self._application) or 0

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
        make_parent(self._path)
        options = delta_options(self._path)
        try:
            write_deltalake(str(self._path), rows, mode="append", commit_properties=remembered, storage_options=options)
        except (DeltaError, OSError):  # only the response of an object store may be lost
            if self._read_until() != until:
                raise
