"""What a pipeline is told: where messages come from, where tables and its own state live, what to do without a schema."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from headstream.errors import InvalidOptionError
from headstream.model.identifiers import TopicName

__all__ = ["MAX_MESSAGES_PER_BATCH", "OnMissingSchema", "ReplicateConfig", "parse_duration_us"]

OnMissingSchema = Literal["delayed", "dead-letter", "fail"]

MAX_MESSAGES_PER_BATCH: Final = 200_000
"""Messages of one micro-batch: enough to spread a merge's fixed cost, few enough to hold decoded in the driver."""

_UNITS_US: Final = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def parse_duration_us(text: str) -> int:
    """Return the microseconds that a text such as `60s`, `500ms`, `5m` or `2h` spells.

    Raises:
        InvalidOptionError: it is not a number with one of the units us, ms, s, m, h, d.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(us|ms|s|m|h|d)\s*", text)
    if match is None:
        raise InvalidOptionError(f"{text!r} is not a duration", advice="Write a number and a unit: 500ms, 60s, 5m, 2h or 1d")
    return round(float(match[1]) * _UNITS_US[match[2]])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicateConfig:
    """One pipeline.

    Args:
        source: URL of the log that the envelopes are in.
        topics: Topics with data messages (`stream/topic`); metadata messages in them are understood too.
        metadata: Topics with metadata messages; may be empty where metadata is mixed in.
        tables: Directory of the Delta tables: one a source table, at `<schema>/<table>`.
        checkpoint: Directory of everything the pipeline must remember.
        zone: Directory of the schema zone; by default in the checkpoint.
        schema_wait_us: How long a data message waits for its schema before `on_missing_schema` applies, microseconds.
        on_missing_schema: `delayed` moves it to the delayed topic (from where it still comes back), `dead-letter` gives
            it up, `fail` stops the pipeline.
        delayed: The delayed topic, in the pipeline's own log.
        once: Stop when all that was there at the start has been applied.
        max_messages_per_batch: Most messages of one micro-batch.
        mask_order: Byte order of Avro column masks: `little` (byte 0 holds the first eight columns) or `big`.

    Raises:
        InvalidOptionError: something is missing or contradicts itself.
    """

    source: str
    topics: tuple[str, ...]
    metadata: tuple[str, ...] = ()
    tables: Path
    checkpoint: Path
    zone: Path | None = None
    schema_wait_us: int = 60_000_000
    on_missing_schema: OnMissingSchema = "delayed"
    delayed: str = "replicate/delayed"
    once: bool = False
    max_messages_per_batch: int = MAX_MESSAGES_PER_BATCH
    mask_order: Literal["little", "big"] = "little"

    def __post_init__(self) -> None:
        if not self.topics:
            raise InvalidOptionError("no topic to read", where="topics", advice="Give at least one, as in --topics cdc/data")
        for name in (*self.topics, *self.metadata, self.delayed):
            TopicName.parse(name)
        if self.on_missing_schema not in get_args(OnMissingSchema):
            raise InvalidOptionError(
                f"{self.on_missing_schema!r} is not a policy",
                where="on-missing-schema",
                advice=f"Use one of {', '.join(get_args(OnMissingSchema))}",
            )
        if self.schema_wait_us < 0:
            raise InvalidOptionError("a wait cannot be negative", where="schema-wait")
        if self.max_messages_per_batch < 1:
            raise InvalidOptionError("a micro-batch has at least one message", where="max-messages-per-batch")
        if self.tables.resolve() == self.checkpoint.resolve():
            raise InvalidOptionError("tables and checkpoint are one directory", where=str(self.tables), advice="Give two")

    @property
    def zone_directory(self) -> Path:
        """Where the schema zone is."""
        return self.zone if self.zone is not None else self.checkpoint / "zone"

    @property
    def all_topics(self) -> tuple[str, ...]:
        """Every topic read, each once."""
        return tuple(dict.fromkeys((*self.metadata, *self.topics)))
