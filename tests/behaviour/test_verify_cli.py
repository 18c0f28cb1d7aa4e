"""`headstream verify` as a process: what it says, its exit codes, and that a live writer does not disturb it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from headstream.connect import connect
from tests.support.cli_inputs import run


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "log"
    with connect(root.as_uri()) as log:
        log.create_topic("shop/orders")
        with log.producer("shop/orders") as producer:
            for number in range(3):
                producer.send(b"order %d" % number)
                producer.flush()
    return root


def only(root: Path, pattern: str) -> Path:
    (path,) = root.glob(f"streams/*/*/1/{pattern}")
    return path


def flip(path: Path, byte: int) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1
    path.write_bytes(data)


def read_rows(root: Path, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(run("verify", root, *arguments, "--output", "json", code=code).stdout)
    return rows


def test_a_sound_log_is_said_to_be_sound(root: Path) -> None:
    assert run("verify", root).stdout == b"intact: nothing is damaged\n"
    assert run("verify", url=root.as_uri()).stdout == b"intact: nothing is damaged\n"
    assert read_rows(root) == []


def test_damage_is_named_with_its_coordinates_and_ends_with_1(root: Path) -> None:
    path = only(root, "*.log")
    flip(path, 52 + 45)
    (row,) = read_rows(root, code=1)
    assert (row["finding"], row["kind"], row["path"]) == ("damage", "send", str(path))
    assert (row["topic"], row["partition"], row["from_offset"], row["until_offset"]) == ("shop/orders", 1, 1, 2)
    assert (row["from_byte"], row["until_byte"]) == (52, 104)
    text = run("verify", root, code=1).stdout.decode()
    assert f"damage    shop/orders, partition 1: {path}, offset 1, bytes 52 to 103\n" in text
    assert "Restore" in text
    assert text.endswith("1 damaged, 0 notes\n")


def test_repair_mends_an_index_says_so_and_keeps_the_old_one(root: Path) -> None:
    path = only(root, "*.index")
    whole = path.read_bytes()
    flip(path, 40)
    assert [row["kind"] for row in read_rows(root, code=1)] == ["index_entry"]
    text = run("verify", root, "--repair").stdout.decode()
    assert f"repaired  {path}\n  the index was rebuilt from the messages: 3 sends" in text
    assert path.read_bytes() == whole
    assert [row["kind"] for row in read_rows(root)] == ["file_set_aside"]
    with connect(root.as_uri()) as log:
        assert [message.payload for message in log.poll("shop/orders")] == [b"order 0", b"order 1", b"order 2"]


def test_repair_reports_what_remains_and_ends_with_1(root: Path) -> None:
    flip(only(root, "*.log"), 10)
    only(root, "*.index").unlink()
    flip(only(root, "*.log"), 50)
    kinds = [(row["finding"], row["kind"]) for row in read_rows(root, "--repair", code=1)]
    assert kinds == [("damage", "index_missing")]


def test_verify_runs_beside_a_writer_and_repair_does_not(root: Path) -> None:
    with connect(root.as_uri()) as log, log.producer("shop/orders") as producer:
        producer.send(b"more")
        producer.flush()
        assert run("verify", root).stdout.startswith(b"intact")
        assert b"is writing to this log" in run("verify", root, "--repair", code=1).stderr


def test_a_command_ends_with_2_when_its_arguments_are_wrong(tmp_path: Path) -> None:
    assert b"No log specified" in run("verify", code=2).stderr
    assert b"there is no log" in run("verify", tmp_path / "none", code=2).stderr
    (tmp_path / "mine.txt").write_bytes(b"mine")
    assert b"not a log" in run("verify", tmp_path, code=2).stderr
    assert b"Only a log in a directory" in run("verify", url="memory://x", code=2).stderr
    assert run("verify", tmp_path, "--output", "xml", code=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt"]
