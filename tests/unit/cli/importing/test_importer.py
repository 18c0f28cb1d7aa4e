from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headstream.cli.importing import importer
from headstream.cli.importing.importer import Imported, Importer, ImportOptions
from headstream.cli.importing.progress import progress_path
from headstream.client.client import Client
from headstream.connect import connect
from headstream.core.model.message import Message, checksum, state_name
from headstream.core.model.topology import Limits
from headstream.errors import InvalidInputError
from tests.support.crashes import fail_with

TOPIC = "shop/orders"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Client]:
    with connect(f"file://{tmp_path / 'log'}") as log:
        yield log


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importer, "_CHUNK_LINES", 10)


def write(tmp_path: Path, *lines: dict[str, Any] | str, name: str = "in.jsonl") -> Path:
    file = tmp_path / name
    texts = (line if isinstance(line, str) else json.dumps({"topic": TOPIC, **line}) for line in lines)
    file.write_text("".join(f"{text}\n" for text in texts))
    return file


def orders(count: int) -> list[dict[str, Any]]:
    return [{"payload": "AAAA", "headers": [{"key": "n", "kind": "int64", "value": n}]} for n in range(count)]


def read(log: Client, topic: str = TOPIC) -> list[Message]:
    partitions = [place.number for place in log.topic(topic).partitions]
    return [message for number in partitions for message in log.poll(topic, number, count=100_000, states=None)]


def numbers(log: Client) -> list[int]:
    return sorted(message.headers["n"].as_int64() for message in read(log))


def load(log: Client, file: Path, **options: Any) -> Imported:
    return Importer(log, file, ImportOptions(**options)).run()


def test_import_sends_every_line_in_order(tmp_path: Path, log: Client) -> None:
    done = load(log, write(tmp_path, *orders(25)))
    assert (done.lines, done.sent, done.found, done.bad, done.created) == (25, 25, 0, 0, [TOPIC])
    assert [message.headers["n"].value for message in read(log)] == list(range(25))


def test_import_again_sends_nothing_until_the_file_grows(tmp_path: Path, log: Client) -> None:
    file = write(tmp_path, *orders(25))
    load(log, file)
    assert load(log, file).sent == 0
    with file.open("a") as more:
        more.write(json.dumps({"topic": TOPIC, "payload": "AAAA", "headers": [{"key": "n", "kind": "int64", "value": 25}]}))
    done = load(log, file)
    assert (done.lines, done.sent) == (26, 1)
    assert numbers(log) == list(range(26))


def test_import_stops_at_a_bad_line_and_goes_on_when_it_is_mended(tmp_path: Path, log: Client) -> None:
    lines = [json.dumps({"topic": TOPIC, **line}) for line in orders(25)]
    file = write(tmp_path, *lines[:13], '{"topic": "shop/orders", "payload": "?"}', *lines[14:])
    with pytest.raises(InvalidInputError, match="line 14 is bad: not base64"):
        load(log, file)
    assert numbers(log) == list(range(13))
    with pytest.raises(InvalidInputError, match="line 14 is bad"):
        load(log, file)
    write(tmp_path, *lines)
    assert load(log, file).sent == 12
    assert numbers(log) == list(range(25))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"payload": None}, "payload"),
        ({"payload": ""}, "payload"),
        ({"payload": "AAAA", "partition": 2}, "no partition 2"),
        ({"payload": "AAAA", "partition": 0}, "no partition 0"),
        ({"payload": "AAAA", "headers": [{"key": "hs.key", "kind": "raw", "value": "AA=="}]}, "hs.key"),
        ({"payload": "AAAA", "headers": [{"key": "a", "kind": "null", "value": None}]}, "'a'"),
    ],
)
def test_import_names_the_line_that_its_topic_does_not_take(
    tmp_path: Path, log: Client, line: dict[str, Any], reason: str
) -> None:
    log.create_topic(TOPIC)
    file = write(tmp_path, *orders(3), line, *orders(3))
    with pytest.raises(InvalidInputError, match="line 4 is bad") as caught:
        load(log, file)
    assert reason in str(caught.value)
    assert numbers(log) == [0, 1, 2]


def test_import_collects_bad_lines_as_they_are_and_does_not_repeat_them(tmp_path: Path, log: Client) -> None:
    lines = [json.dumps({"topic": TOPIC, **line}) for line in orders(25)]
    file = write(tmp_path, *lines[:5], "nonsense", *lines[5:14], '{"payload": "AAAA"}', *lines[14:])
    bad, kept = tmp_path / "bad.jsonl", tmp_path / "kept"
    reasons: list[str] = []

    def keep(byte_position: int) -> None:
        if not kept.exists():
            shutil.copy(progress_path(file), kept)

    done = load(log, file, bad_lines=bad, on_bad_line=reasons.append, on_progress=keep)
    assert (done.lines, done.sent, done.bad) == (27, 25, 2)
    assert bad.read_text() == 'nonsense\n{"payload": "AAAA"}\n'
    assert [reason.split(" is bad")[0] for reason in reasons] == ["line 6", "line 16"]
    shutil.copy(kept, progress_path(file))  # as if it had died in the first chunk, its bad line written
    write(tmp_path, *lines[:5], "nonsense", *lines[5:9])
    done = load(log, file, bad_lines=bad)
    assert bad.read_text() == "nonsense\n"
    assert numbers(log) == list(range(25))


def test_import_passes_blank_lines_over_and_takes_a_last_line_without_an_end(tmp_path: Path, log: Client) -> None:
    file = write(tmp_path, "", *orders(2), "  ", *orders(1))
    file.write_text(file.read_text().removesuffix("\n"))
    done = load(log, file)
    assert (done.lines, done.sent) == (5, 3)


def test_import_makes_topics_that_take_what_the_file_has(tmp_path: Path, log: Client) -> None:
    plain = {"topic": "shop/plain", "payload": "AAAA"}
    wide = {"topic": "shop/wide", "payload": None, "partition": 3}
    file = write(tmp_path, *[plain] * 30, {**plain, "partition": 2}, wide, {"topic": "shop/bad", "partition": 1})
    done = load(log, file)
    assert done.created == ["shop/plain", "shop/wide", "shop/bad"]
    made = {topic.name: (len(topic.partitions), topic.limits) for topic in log.topics()}
    assert made == {"plain": (2, Limits.IGGY), "wide": (3, Limits.WIDE), "bad": (1, Limits.WIDE)}
    assert read(log, "shop/wide")[0].payload is None


def test_import_makes_topics_as_it_is_told(tmp_path: Path, log: Client) -> None:
    load(log, write(tmp_path, *orders(4)), partitions=4, limits=Limits.WIDE)
    assert (len(log.topic(TOPIC).partitions), log.topic(TOPIC).limits) == (4, Limits.WIDE)
    assert [place.end_offset for place in log.topic(TOPIC).partitions] == [1, 1, 1, 1]


def test_import_sends_lines_without_a_topic_where_it_is_told(tmp_path: Path, log: Client) -> None:
    file = write(tmp_path, '{"payload": "AAAA"}')
    with pytest.raises(InvalidInputError, match="--topic"):
        load(log, file)
    assert load(log, file, topic=TOPIC).sent == 1


def test_import_keeps_keys_in_their_partitions_and_ids_as_they_are(tmp_path: Path, log: Client) -> None:
    log.create_topic(TOPIC, 4)
    with log.producer(TOPIC) as producer:
        producer.send(b"a", key=b"42")
    (first,) = read(log)
    load(log, write(tmp_path, {"payload": "AAAA", "key": "NDI=", "id": 99}))
    second = next(message for message in read(log) if message.id == 99)
    assert (second.key, second.partition) == (b"42", first.partition)


def test_import_gives_a_time_as_a_header_once(tmp_path: Path, log: Client) -> None:
    given = {"headers": [{"key": "hs.timestamp", "kind": "uint64", "value": 5}], "timestamp_us": 7, "payload": "AAAA"}
    load(log, write(tmp_path, {"payload": "AAAA", "timestamp_us": 7}, given))
    first, second = read(log)
    assert [(key, value.value) for key, value in first.headers.items()] == [("hs.timestamp", 7)]
    assert [(key, value.value) for key, value in second.headers.items()] == [("hs.timestamp", 5)]


@pytest.mark.parametrize("is_broken_off", [False, True])
def test_import_gives_messages_the_states_of_their_lines(
    tmp_path: Path, log: Client, monkeypatch: pytest.MonkeyPatch, is_broken_off: bool
) -> None:
    states = ["available", "poisoned", "available", "unknown(77)", "marked_for_deletion"] * 5
    lines: list[dict[str, Any]] = [{**order, "state": state} for order, state in zip(orders(25), states, strict=True)]
    lines[0]["id"] = lines[1]["id"] = 7
    file = write(tmp_path, *lines)
    if is_broken_off:
        with monkeypatch.context() as patch:
            patch.setattr(Importer, "_set_states", fail_with(KeyboardInterrupt()))
            with pytest.raises(KeyboardInterrupt):
                load(log, file)
    load(log, file)
    assert {message.headers["n"].as_int64(): state_name(message.state) for message in read(log)} == dict(enumerate(states))


def test_import_refuses_a_payload_that_is_not_what_its_checksum_was_made_of(tmp_path: Path, log: Client) -> None:
    right: list[dict[str, Any]] = [{"payload": "AAAA", "checksum": checksum(bytes(3))}, {"checksum": 0}]
    with pytest.raises(InvalidInputError, match=r"line 3 is bad: the payload does not match the line's checksum"):
        load(log, write(tmp_path, *right, {"payload": "AAAB", "checksum": checksum(bytes(3))}))
    assert len(read(log)) == 2


def test_import_refuses_a_file_that_has_changed_before_the_place(tmp_path: Path, log: Client) -> None:
    file = write(tmp_path, *orders(12))
    load(log, file)
    write(tmp_path, *reversed(orders(12)))
    with pytest.raises(InvalidInputError, match="the part of the file that was already imported has changed"):
        load(log, file)
    write(tmp_path, *orders(3))
    with pytest.raises(InvalidInputError, match="the part of the file that was already imported has changed"):
        load(log, file)
    assert numbers(log) == list(range(12))


def test_import_refuses_another_log(tmp_path: Path, log: Client) -> None:
    file = write(tmp_path, *orders(2))
    load(log, file)
    with connect(f"file://{tmp_path / 'another'}") as another, pytest.raises(InvalidInputError, match="another log"):
        load(another, file)


def test_import_is_exact_when_it_is_broken_off_anywhere(tmp_path: Path, log: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is broken off after any message, again and again; a producer flushes what it has on the way out, or does not."""
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    file = write(tmp_path, *orders(60))
    send_line = Importer._send_line

    def send_or_break(self: Importer, line: Any) -> Any:
        if chance.random() < 0.08:
            raise KeyboardInterrupt
        return send_line(self, line)

    monkeypatch.setattr(Importer, "_send_line", send_or_break)
    for _ in range(500):
        try:
            load(log, file, partitions=3)
            break
        except KeyboardInterrupt:
            continue
    assert numbers(log) == list(range(60)), f"seed {seed}"
