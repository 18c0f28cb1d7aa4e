"""Records: what is written is read, in chunks too, and damage is told."""

from __future__ import annotations

import random

import pytest

from headstream.errors import CorruptLogError, LogVersionError
from headstream.replicate.checkpoint import records
from headstream.replicate.checkpoint.records import FileChange, RecordWriter, read_record


def make(data: bytes, chunks: dict[int, bytes]) -> bytes:
    writer = RecordWriter("commits", chunks.__setitem__)
    writer.add(FileChange("a", len(data), [(0, 10), (20, len(data) - 10)]), [data[:10], data[10:]])
    writer.add(FileChange("log/empty/", 0, []), [])
    return writer.finish(12, "me", 1_700_000_000_000_000, ["b"])


@pytest.mark.parametrize("size", [10, 99, 100, 101, 1000])
def test_a_record_is_read_as_it_was_written(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(records, "CHUNK_BYTES", 100)
    data, chunks = random.Random(size).randbytes(size), dict[int, bytes]()
    found = read_record(make(data, chunks), "there")
    assert (found.kind, found.number, found.driver, found.removed) == ("commits", 12, "me", ["b"])
    assert found.files == [FileChange("a", size, [(0, 10), (20, size - 10)]), FileChange("log/empty/", 0, [])]
    assert b"".join(bytes(chunk) for chunk in found.body(chunks.__getitem__)) == data
    assert len(chunks) == (size - 1) // 100
    assert found.stored_bytes == len(found.raw) + sum(map(len, chunks.values()))


def test_read_record_refuses_a_record_whose_byte_was_changed_or_that_was_truncated_anywhere() -> None:
    chunks: dict[int, bytes] = {}
    raw = make(b"some text " * 30, chunks)
    for place in range(len(raw)):
        damaged = raw[:place] + bytes([raw[place] ^ 0x40]) + raw[place + 1 :]
        with pytest.raises((CorruptLogError, LogVersionError)):
            list(read_record(damaged, "there").body(chunks.__getitem__))
    for end in range(len(raw)):
        with pytest.raises(CorruptLogError):
            list(read_record(raw[:end], "there").body(chunks.__getitem__))
