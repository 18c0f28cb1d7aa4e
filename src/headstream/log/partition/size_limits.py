"""Size limits of segments and sends."""

from __future__ import annotations

from typing import Final

from headstream.core.codec.buffer import BytesLike
from headstream.core.model.topology import MAX_BATCH_BYTES
from headstream.errors import InvalidInputError, InvalidOptionError, LimitError

DEFAULT_SEGMENT_BYTES: Final = 256 << 20
"""Default segment size, bytes. Retention drops whole segments, and a partition is searched by segment; 10 GB are 40 segments."""

_MIN_SEGMENT_BYTES: Final = 4096
_MAX_SEGMENT_BYTES: Final = 2 << 30
"""Maximum segment size, bytes: positions fit into 32 bits even if a stored send of the maximum size begins at this position."""


def check_segment_bytes(segment_bytes: int) -> int:
    """Return the segment size; InvalidOptionError if it is not between 4 KiB and 2 GiB."""
    if not isinstance(segment_bytes, int) or not _MIN_SEGMENT_BYTES <= segment_bytes <= _MAX_SEGMENT_BYTES:
        allowed = f"from {_MIN_SEGMENT_BYTES} to {_MAX_SEGMENT_BYTES}"
        raise InvalidOptionError(f"segment_bytes must be {allowed}, not {segment_bytes!r}")
    return segment_bytes


def check_sent_bytes(sent: BytesLike, where: str) -> int:
    """Return the size of a batch; LimitError if it exceeds the limit of a send, InvalidInputError if it is empty."""
    size_bytes = memoryview(sent).nbytes
    if size_bytes > MAX_BATCH_BYTES:
        raise LimitError(
            f"the batch has {size_bytes} bytes",
            where=where,
            advice=f"A batch can have at most {MAX_BATCH_BYTES} bytes: send smaller batches, or store large payloads elsewhere",
        )
    if size_bytes == 0:
        raise InvalidInputError("the batch contains no message", where=where, advice="Send at least one message")
    return size_bytes
