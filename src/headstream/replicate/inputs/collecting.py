"""Collects a micro-batch's results in the driver, in one fetch or, if they exceed the memory of Spark's driver, in pieces.

If the results of all tasks are fetched together, the driver's JVM holds several copies in memory. In pieces, the results are
computed once, stored on the executors' disks, and fetched a few rows at a time. The JVM frees a piece before it fetches the next.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType

_LOGGER: Final = logging.getLogger("headstream.replicate")
_ROW: Final = "_hs_row"
_PIECE_BYTES: Final = 32 << 20
"""Maximum size of a piece, bytes, unless one row is larger; a small part of the smallest heap that Spark starts with."""
_PIECE_ROWS: Final = 20_000
_TOO_BIG: Final = (
    "spark.driver.maxResultSize",
    "OutOfMemoryError",
    "Java heap space",
    "Cannot reserve additional contiguous bytes",
)
"""Parts of Spark's error messages for results that do not fit into the driver's memory."""


_RECREATED: Final = ("was deleted and recreated", "the partition was purged or deleted", "that this read was planned for")
_LOST: Final = (
    "OffsetOutOfRangeError", "cannot all be read: ", "failOnDataLoss", "data may have been missed", "data may have been lost",
    "OffsetOutOfRangeException", "KAFKA_DATA_LOSS",
)  # fmt: skip
_ACCEPT_RECREATED: Final = (
    "Run once with --accept-recreated and the same checkpoint: the new topics are read from their beginning, and all schemas, "
    "waiting messages and deletions are kept. Unread messages of the old topics are lost: reload the affected tables"
)
_ACCEPT_LOSS: Final = (
    "Run once with --accept-loss and the same checkpoint: the run continues with the remaining messages, and all schemas, "
    "waiting messages and deletions are kept. Reload the affected tables, which lack the deleted changes"
)


def is_too_big(error: BaseException) -> bool:
    """Return whether a Spark error means that the results do not fit into the driver's memory."""
    try:
        text = str(error)
    except Exception:  # a Py4JJavaError queries its JVM, which may have ended for this reason
        return True
    return any(sign in text for sign in _TOO_BIG)


def reason_of(error: BaseException) -> str:
    """Return the cause of a failed query: Headstream's error if there is one, or Spark's first line or Java's cause."""
    text = str(error).strip()
    ours = re.findall(r"^headstream\.errors\.\w+: (.+)$", text, re.MULTILINE)
    if ours:
        return str(ours[-1])
    first_line = text.partition("\n")[0] or type(error).__name__
    if not isinstance(error, Py4JJavaError):
        return first_line
    causes = re.findall(r"^(?:Caused by|): [\w.$]+: (.+)$", text, re.MULTILINE)  # the first line names a call of Py4J
    return str(causes[-1]) if causes else first_line


class SourceFault(NamedTuple):
    """A message loss in a source, and the ways to continue."""

    what: str
    advice: str


def find_source_fault(error: BaseException) -> SourceFault | None:
    """Return the fault in an error about deleted messages or recreated topics of the source; None for other errors."""
    try:
        text = str(error)
    except Exception:  # as in is_too_big()
        return None
    is_recreated = any(sign in text for sign in _RECREATED)
    if not is_recreated and not any(sign in text for sign in _LOST):
        return None
    reason = re.sub(
        r"[.;,]? *(?:If the log was recreated, )?[Ss]tart (?:the query )?with a new checkpointLocation.*", "", reason_of(error)
    )
    reason = re.sub(r"[.;,]? *(?:[^.;]*; *)?(?:[Ss]et )?failOnDataLoss=false.*", "", reason)
    if is_recreated:
        return SourceFault(reason, _ACCEPT_RECREATED)
    return SourceFault(f"messages were deleted before they were read: {reason}", _ACCEPT_LOSS)


def collect(frame: DataFrame, *, in_pieces: bool = False) -> pa.Table:
    """Return the rows of a frame.

    Args:
        in_pieces: Whether the result is known not to fit into memory; otherwise pieces are used only if a single fetch fails.
    """
    if not in_pieces:
        try:
            return frame.toArrow()
        except (PySparkException, Py4JJavaError) as error:
            if not is_too_big(error):
                raise
            _LOGGER.warning("a micro-batch does not fit into the memory of Spark's driver and is fetched in pieces")
    schema = frame.limit(0).toArrow().schema
    return pa.concat_tables([schema.empty_table(), *_pieces(frame)])


def _pieces(frame: DataFrame) -> Iterator[pa.Table]:
    sized = [field.name for field in frame.schema if isinstance(field.dataType, BinaryType)]
    size = sum((sf.coalesce(sf.octet_length(sf.col(name)), sf.lit(0)) for name in sized), sf.lit(0))
    kept = frame.withColumn(_ROW, sf.monotonically_increasing_id()).persist(StorageLevel.DISK_ONLY)
    try:
        sizes = kept.select(_ROW, size.cast("bigint").alias("size")).toArrow().sort_by(_ROW)
        first, last, size_bytes, count = None, 0, 0, 0
        for row, row_bytes in zip(sizes[_ROW].to_pylist(), sizes["size"].to_pylist(), strict=True):
            if first is not None and (size_bytes + row_bytes > _PIECE_BYTES or count >= _PIECE_ROWS):
                yield _fetch(kept, first, last)
                first, size_bytes, count = None, 0, 0
            first = row if first is None else first
            last, size_bytes, count = row, size_bytes + row_bytes, count + 1
        if first is not None:
            yield _fetch(kept, first, last)
    finally:
        kept.unpersist()


def _fetch(kept: DataFrame, first: int, last: int) -> pa.Table:
    return kept.where(sf.col(_ROW).between(first, last)).drop(_ROW).toArrow()


def find_planned_batch(checkpoint: Path) -> int | None:
    """Return the number of the micro-batch that an earlier run planned but did not finish, or None.

    The offsets of this micro-batch are fixed, regardless of the current limits, so it may be the micro-batch that did not fit.
    """
    planned, finished = (_newest(checkpoint / name) for name in ("offsets", "commits"))
    return planned if planned is not None and (finished is None or planned > finished) else None


def _newest(directory: Path) -> int | None:
    try:
        return max((int(path.name) for path in directory.iterdir() if path.name.isdecimal()), default=None)
    except FileNotFoundError:
        return None
