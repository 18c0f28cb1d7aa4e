"""Changing what lies on the disk of a log that nobody writes, as another version or a fault would have left it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from headstream.core.codec.batch.stored.scan import masked_crc32c
from headstream.log.segments.layout import INDEX_ENTRY_BYTES, INDEX_HEADER_BYTES, decode_entry, encode_entry


def data_file(url: str, partition: int = 1) -> Path:
    """Return the one segment of a partition of a log that has one topic."""
    (found,) = Path(urlsplit(url).path).glob(f"streams/*/*/{partition}/*.log")
    return found


def patch_stored(url: str, change: Callable[[bytearray], None], partition: int = 1) -> None:
    """Change stored bytes in place, and the checksums of their sends with them, so that they are as they were written."""
    path = data_file(url, partition)
    stored = bytearray(path.read_bytes())
    change(stored)
    path.write_bytes(stored)
    index_path = path.with_suffix(".index")
    index = bytearray(index_path.read_bytes())
    base = int(path.stem)
    for at in range(INDEX_HEADER_BYTES, len(index) - INDEX_ENTRY_BYTES + 1, INDEX_ENTRY_BYTES):
        entry = decode_entry(index[at : at + INDEX_ENTRY_BYTES], base)
        assert entry is not None
        sent = stored[entry.byte_position : entry.end_position]
        index[at : at + INDEX_ENTRY_BYTES] = encode_entry(entry._replace(crc32c=masked_crc32c(sent)), base)
    index_path.write_bytes(index)
