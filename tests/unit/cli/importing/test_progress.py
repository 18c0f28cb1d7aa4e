"""Unit tests of headstream.cli.importing.progress."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headstream.cli.importing.progress import progress_path
from headstream.client.client import Client
from headstream.connect import connect
from headstream.errors import InvalidInputError
from tests.unit.cli.importing.test_importer import TOPIC, load, log, numbers, orders, read, small_chunks, write

__all__ = ["log", "small_chunks"]  # fixtures


@pytest.mark.parametrize("chunk", [0, 1, 2])
def test_import_finds_what_was_sent_and_not_noted_when_it_died(tmp_path: Path, log: Client, chunk: int) -> None:
    """The place that was kept before a chunk is put back after it was sent: so it stands when the process dies in between."""
    file = write(tmp_path, *orders(25))
    kept = tmp_path / "kept"
    seen = 0

    def keep(byte_position: int) -> None:
        nonlocal seen
        if seen == chunk:
            shutil.copy(progress_path(file), kept)
            raise KeyboardInterrupt
        seen += 1

    with pytest.raises(KeyboardInterrupt):
        load(log, file, on_progress=keep, partitions=3)
    for _ in range(2):  # it dies a second time at the same place
        shutil.copy(kept, progress_path(file))
        with pytest.raises(KeyboardInterrupt):
            load(log, file, on_progress=_interrupt)
    shutil.copy(kept, progress_path(file))
    done = load(log, file)
    assert done.found == (5 if chunk == 2 else 10)
    assert done.sent == 25 - 10 * chunk - done.found
    assert numbers(log) == list(range(25))


def _interrupt(byte_position: int) -> None:
    raise KeyboardInterrupt


def test_import_sends_the_rest_of_a_chunk_that_was_sent_in_part(tmp_path: Path, log: Client) -> None:
    """Another writer, repeated ids, and lines that look alike must not be taken for what was sent."""
    file = write(tmp_path, *({**line, "id": 5 if n < 4 else 0, "partition": 1} for n, line in enumerate(orders(10))))
    other = write(tmp_path, *orders(1), name="other.jsonl")
    load(log, other)
    kept = tmp_path / "kept"

    def keep(byte_position: int) -> None:
        shutil.copy(progress_path(file), kept)

    load(log, file, on_progress=keep)
    sent = read(log)[1:]
    with connect(f"file://{tmp_path / 'half'}") as half:
        half.create_topic(TOPIC)
        with half.producer(TOPIC) as producer:
            producer.send(b"\0\0\0", headers={"n": 0})
            for message in sent[:6]:
                producer.send(message.payload, headers=message.headers, id=message.id)
        place = json.loads(kept.read_text())
        progress_path(file).write_text(json.dumps({**place, "log": half.identity}))
        done = load(half, file)
        assert (done.found, done.sent) == (6, 4)
        assert Counter(message.headers["n"].value for message in read(half)[1:]) == Counter(range(10))


def test_import_does_not_send_again_what_compaction_has_removed_since(tmp_path: Path, log: Client) -> None:
    keys = ["QQ==", "Qg==", "QQ==", "Qg==", "Qw=="]  # of A, the first line was sent, and is gone
    file = write(tmp_path, *({**line, "key": key, "partition": 1} for line, key in zip(orders(5), keys, strict=True)))
    kept = tmp_path / "kept"
    load(log, file, on_progress=lambda _: shutil.copy(progress_path(file), kept))
    sent = read(log)
    with connect(f"file://{tmp_path / 'half'}") as half:
        half.create_topic(TOPIC)
        with half.producer(TOPIC) as producer:
            for message in sent[1:3]:
                producer.send(message.payload, key=message.key, headers=[("n", message.headers["n"])], id=message.id)
        place = json.loads(kept.read_text())
        progress_path(file).write_text(json.dumps({**place, "log": half.identity}))
        assert (load(half, file).found, numbers(half)) == (3, [1, 2, 3, 4])


def test_import_refuses_a_progress_file_of_something_else(tmp_path: Path, log: Client) -> None:
    file = write(tmp_path, *orders(1))
    load(log, file)
    good = json.loads(progress_path(file).read_text())
    changes: list[Any] = [
        {"format": 2}, {"lines": -1}, {"lines": "x"}, {"byte_position": None}, {"more": 1}, {"ends": {"a/b": {"x": 1}}},
        {"ends": {"a/b": {"1": "x"}}}, {"ends": []}, {"bad_lines": {}}, {"bad_lines": {"path": 5, "size_bytes": 5}},
    ]  # fmt: skip
    for text in ("", "[]", "{}", "null", *(json.dumps({**good, **change}) for change in changes)):
        progress_path(file).write_text(text)
        with pytest.raises(InvalidInputError, match="does not contain the progress of an import"):
            load(log, file)
