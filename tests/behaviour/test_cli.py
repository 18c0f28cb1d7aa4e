"""The commands over a log in a directory; as processes where they are interrupted, killed or have a terminal."""

from __future__ import annotations

import json
import os
import pty
import random
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headstream.connect import connect
from headstream.core.model.identifiers import format_message_id
from headstream.core.model.message import Message
from tests.support.cli_inputs import ALL_KINDS, COMMAND, environment, run, run_program

TOPIC = "shop/orders"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"file://{tmp_path / 'log'}"


def read_json(*arguments: str | Path, url: str, stdin: bytes = b"") -> Any:
    return json.loads(run(*arguments, "--output", "json", url=url, stdin=stdin).stdout)


def fill(url: str, *payloads: bytes, partition: int = 1, partitions: int = 1) -> None:
    """Put messages into a partition of the topic, which is made where it is not there."""
    with connect(url) as log:
        log.create_topic(TOPIC, partitions, if_not_exists=True)
        with log.producer(TOPIC) as producer:
            for payload in payloads:
                producer.send(payload, partition=partition)


def read_all(url: str, topic: str) -> list[Message]:
    with connect(url) as log:
        numbers = [place.number for place in log.topic(topic).partitions]
        return [message for number in numbers for message in log.poll(topic, number, count=1_000_000, states=None)]


@contextmanager
def started(*arguments: str | Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the program; it is ended with the body."""
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(url)
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_streams_and_topics_are_made_shown_and_deleted(url: str) -> None:
    assert read_json("stream", "list", url=url) == []
    assert read_json("topic", "create", TOPIC, "--partitions", "3", url=url)["limits"] == "iggy"
    assert b"already" in run("topic", "create", TOPIC, url=url, code=1).stderr
    kept = read_json("topic", "create", TOPIC, "--partitions", "9", "--limits", "wide", "--if-not-exists", url=url)
    assert (len(kept["partitions"]), kept["limits"]) == (3, "iggy")
    run("stream", "create", "empty", url=url)
    assert [stream["name"] for stream in read_json("stream", "list", url=url)] == ["shop", "empty"]
    assert read_json("stream", "show", "shop", url=url)["topics"] == ["orders"]
    run("topic", "create", "shop/returns", url=url)
    lines = run("topic", "list", "shop", "--output", "jsonl", url=url).stdout.splitlines()
    assert [json.loads(line)["name"] for line in lines] == [TOPIC, "shop/returns"]
    table = run("topic", "list", url=url).stdout.decode().splitlines()
    assert table[0].split() == ["name", "id", "limits", "partitions", "messages", "size_bytes"]
    assert table[1].split()[:5] == [TOPIC, "1", "iggy", "3", "0"]
    assert read_json("topic", "update", TOPIC, "--name", "purchases", "--retention", "7d", url=url)["name"] == "shop/purchases"
    run("topic", "delete", "shop/purchases", "--yes", url=url)
    assert read_json("topic", "list", url=url)[0]["name"] == "shop/returns"
    assert read_json("stream", "update", "empty", "--name", "full", url=url)["name"] == "full"
    run("stream", "delete", "shop", "--yes", url=url)
    assert b"there is no stream 'shop'" in run("stream", "show", "shop", url=url, code=1).stderr


def test_a_message_is_sent_and_polled_as_it_is(url: str) -> None:
    run("topic", "create", TOPIC, "--partitions", "2", "--limits", "wide", url=url)
    typed = ["--header", "attempt=uint8:3", "--header", "source=web", "--header", "source=raw:AP8=", "--header", "gone=null:"]
    sent = read_json("send", TOPIC, "grün", "--key", "42", "--id", "77", *typed, url=url)
    (message,) = read_json("poll", TOPIC, "--partition", str(sent["partition"]), url=url)
    assert message["headers"] == [
        {"key": "attempt", "kind": "uint8", "value": 3},
        {"key": "source", "kind": "string", "value": "web"},
        {"key": "source", "kind": "raw", "value": "AP8="},
        {"key": "gone", "kind": "null", "value": None},
    ]
    assert (message["payload"], message["key"], message["offset"]) == ("Z3LDvG4=", "NDI=", 0)
    assert message["id"] == format_message_id(77)
    shown = run("poll", TOPIC, url=url).stdout.decode().splitlines()[1]
    assert shown.split()[3:] == ["42", "attempt=uint8:3", "source=string:web", "source=raw:AP8=", "gone=null:", "grün"]


def test_payloads_come_from_standard_input_whole_or_by_line(url: str) -> None:
    run("topic", "create", TOPIC, "--limits", "wide", url=url)
    run("send", TOPIC, "-", url=url, stdin=b"\x00\xff\n")
    run("send", TOPIC, url=url, stdin=b"")
    run("send", TOPIC, "--null", url=url)
    assert read_json("send", TOPIC, "--lines", url=url, stdin=b"a\n\nb")["sent"] == 3
    run("send", TOPIC, "c", "--count", "2", url=url)
    payloads = [message.payload for message in read_all(url, TOPIC)]
    assert payloads == [b"\x00\xff\n", b"", None, b"a", b"", b"b", b"c", b"c"]
    run("topic", "create", "shop/plain", url=url)
    assert b"Error: " in run("send", "shop/plain", "--null", url=url, code=1).stderr


def test_messages_without_a_key_go_where_the_fewest_are(url: str) -> None:
    run("topic", "create", TOPIC, "--partitions", "3", url=url)
    assert [read_json("send", TOPIC, "x", url=url)["partition"] for _ in range(4)] == [1, 2, 3, 1]
    assert read_json("send", TOPIC, "x", "--partition", "3", url=url)["partition"] == 3
    assert b"no partition 4" in run("send", TOPIC, "x", "--partition", "4", url=url, code=1).stderr


def test_poll_begins_where_it_is_told(url: str) -> None:
    for partition in (1, 2, 1):
        fill(url, *(b"%d" % n for n in range(3)), partition=partition, partitions=2)

    def places(*arguments: str) -> list[tuple[int, int]]:
        return [(message["partition"], message["offset"]) for message in read_json("poll", TOPIC, *arguments, url=url)]

    everything = [(1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 0), (2, 1), (2, 2)]
    assert places() == everything
    assert places("--count", "7") == everything[:7]
    assert places("--partition", "2", "--count", "2") == [(2, 0), (2, 1)]
    assert places("--offset", "2") == [(1, 2), (1, 3), (1, 4), (1, 5), (2, 2)]
    assert places("--offset", "last", "--count", "4") == [(1, 3), (1, 4), (1, 5), (2, 2)]
    assert places("--offset", "last", "--partition", "2", "--count", "1") == [(2, 2)]
    assert places("--offset", "2000-01-01T00:00:00Z") == everything
    assert places("--from", "2") == places("--offset", "2"), "as tail and export call it"
    assert places("--offset", "2100-01-01T00:00:00Z") == []


def test_poll_next_goes_on_after_what_was_shown(url: str) -> None:
    fill(url, b"a", b"b", b"c")
    offsets = [[m["offset"] for m in read_json("poll", TOPIC, "--offset", "next", "--count", "2", url=url)] for _ in range(3)]
    assert offsets == [[0, 1], [2], []]
    assert [m["offset"] for m in read_json("poll", TOPIC, "--offset", "next", "--consumer", "other", url=url)] == [0, 1, 2]


def test_tail_shows_what_comes_and_ends_with_0_by_ctrl_c(url: str) -> None:
    fill(url, b"old", partitions=2)
    with started("tail", TOPIC, "--from", "first", "--output", "jsonl", url=url) as tail:
        assert tail.stdout is not None
        assert json.loads(tail.stdout.readline())["payload"] == "b2xk"
        run("send", TOPIC, "new", "--partition", "2", url=url)
        assert json.loads(tail.stdout.readline())["payload"] == "bmV3"
        tail.send_signal(signal.SIGINT)
        out, err = tail.communicate(timeout=120)
        assert (tail.returncode, out, err) == (0, b"", b"")


def test_tail_closes_its_list_by_ctrl_c(url: str) -> None:
    fill(url, b"old")
    with started("tail", TOPIC, "--from", "first", "--output", "json", url=url) as tail:
        assert tail.stdout is not None
        first = tail.stdout.readline() + tail.stdout.readline()
        tail.send_signal(signal.SIGINT)
        out, _ = tail.communicate(timeout=120)
        assert tail.returncode == 0
        assert [message["offset"] for message in json.loads(first + out)] == [0]


def test_tail_ends_after_so_many(url: str) -> None:
    fill(url, b"a", b"b", b"c")
    shown = run("tail", TOPIC, "--from", "1", "--count", "2", url=url).stdout.decode().splitlines()
    assert run("tail", TOPIC, "--offset", "1", "--count", "2", url=url).stdout.decode().splitlines() == shown, "as poll calls it"
    assert [line.split()[0] for line in shown] == ["1:1", "1:2"]
    assert [line.split()[-1] for line in shown] == ["b", "c"]


def test_a_reader_that_leaves_ends_it_silently(url: str) -> None:
    fill(url, *[b"x" * 1000] * 2000)
    with started("export", TOPIC, url=url) as export:
        assert export.stdout is not None
        export.stdout.readline()
        export.stdout.close()
        assert export.wait(30) == 0
        assert export.stderr is not None
        assert export.stderr.read() == b""


def test_a_second_writer_is_told_who_the_first_is(url: str) -> None:
    with connect(url) as log:
        log.create_topic(TOPIC)
        failed = run_program("send", TOPIC, "x", url=url, code=1)
        assert str(os.getpid()).encode() in failed.stderr
        assert run_program("poll", TOPIC, url=url).returncode == 0


def test_a_directory_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "thesis.txt").write_text("years of work")
    failed = run("topic", "create", TOPIC, url=f"file://{tmp_path / 'log'}", code=1)
    assert failed.stderr.startswith(b"Error: ")
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["thesis.txt"]


def test_export_and_import_give_back_the_same_messages(url: str, tmp_path: Path) -> None:
    with connect(url) as log:
        log.create_topic(TOPIC, 3, limits="wide")
        with log.producer(TOPIC) as producer:
            producer.send(b"a", headers=ALL_KINDS, key=b"\x00\xff", id=(1 << 128) - 1)
            producer.send(None, key=b"k")
            producer.send(b"", headers=[("again", 1), ("again", "two")])
            producer.send(os.urandom(100_000), partition=3)
    before = read_all(url, TOPIC)
    file = tmp_path / "orders.jsonl"
    file.write_bytes(run("export", TOPIC, url=url).stdout)
    copy = f"file://{tmp_path / 'copy'}"
    done = read_json("import", file, url=copy)
    assert (done["sent"], done["created"]) == (4, [TOPIC])
    after = read_all(copy, TOPIC)
    assert [(m.partition, m.id, m.key, m.payload) for m in after] == [(m.partition, m.id, m.key, m.payload) for m in before]
    for old, new in zip(before, after, strict=True):
        assert new.headers.items()[:-1] == old.headers.items()
        key, value = new.headers.items()[-1]
        assert (key, value.as_int64()) == ("hs.timestamp", old.timestamp)
    again = tmp_path / "again.jsonl"
    run("export", TOPIC, "--file", again, url=copy)
    third = f"file://{tmp_path / 'third'}"
    run("import", again, url=third)
    assert [message.headers for message in read_all(third, TOPIC)] == [message.headers for message in after]


def test_export_takes_partitions_places_and_forms(url: str, tmp_path: Path) -> None:
    fill(url, b"a", b"b", b"c", partitions=2)
    fill(url, b"d", partition=2)

    def payloads(*arguments: str) -> list[str]:
        return [json.loads(line)["payload"] for line in run("export", TOPIC, *arguments, url=url).stdout.splitlines()]

    assert payloads() == ["YQ==", "Yg==", "Yw==", "ZA=="]
    assert payloads("--partition", "2") == ["ZA=="]
    assert payloads("--from", "2") == ["Yw=="]
    assert payloads("--from", "2100-01-01") == []
    assert [message["payload"] for message in read_json("export", TOPIC, url=url)] == ["YQ==", "Yg==", "Yw==", "ZA=="]
    assert b"no partition 3" in run("export", TOPIC, "--partition", "3", url=url, code=1).stderr


def test_import_and_export_show_their_progress_on_a_terminal_alone(url: str, tmp_path: Path) -> None:
    fill(url, *(b"%d" % number for number in range(20)))
    file = tmp_path / "out.jsonl"
    plain = run("export", TOPIC, url=url)
    assert (len(plain.stdout.splitlines()), plain.stderr) == (20, b"")
    for arguments, said in (
        (("export", TOPIC), b"20/20"),
        (("export", TOPIC, "--file", file), b"20/20"),
        (("import", file, "--topic", TOPIC), b"importing"),
    ):
        ours, terminal = pty.openpty()
        command = [*COMMAND, *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, env=environment(url) | {"TERM": "xterm"})
        os.close(terminal)
        assert done.returncode == 0
        assert said in os.read(ours, 1 << 16)
        os.close(ours)
        if arguments == ("export", TOPIC):
            assert done.stdout == plain.stdout
    assert file.read_bytes() == plain.stdout


def test_import_names_a_bad_line_and_collects_it_when_told_to(url: str, tmp_path: Path) -> None:
    file, bad = tmp_path / "in.jsonl", tmp_path / "bad.jsonl"
    good = '{"topic": "shop/orders", "payload": "AAAA"}'
    file.write_text(f"{good}\n{{broken\n{good}\n")
    failed = run("import", file, url=url, code=1)
    assert b"line 2 is bad: the text is not JSON" in failed.stderr
    assert len(read_all(url, TOPIC)) == 1
    done = run("import", file, "--bad-lines", bad, "--output", "jsonl", url=url)
    assert json.loads(done.stdout) == {"file": str(file), "lines": 3, "sent": 1, "found": 0, "bad": 1, "created": []}
    assert b"line 2 is bad" in done.stderr
    assert bad.read_text() == "{broken\n"
    assert len(read_all(url, TOPIC)) == 2


@pytest.mark.nightly  # test_killed_imports_and_stages.py is in the first tier
def test_import_that_is_killed_again_and_again_sends_everything_once(url: str, tmp_path: Path) -> None:
    """Goal: no message lost or repeated. Method: SIGKILL, by turns at work and after a random time, until a run ends."""
    count, seed = 30_000, random.randrange(1 << 32)
    chance = random.Random(seed)
    file = tmp_path / "in.jsonl"
    with file.open("w") as lines:
        for number in range(count):
            line: dict[str, Any] = {"topic": f"shop/t{number % 2}", "payload": "AAAA"}
            if number % 3 == 0:
                line["key"] = "NDI="
            if number % 5 == 0:
                line["id"] = number % 7 + 1
            line["headers"] = [{"key": "n", "kind": "int64", "value": number}]
            lines.write(json.dumps(line) + "\n")
    place, kills = Path(f"{file}.progress"), 0
    while True:
        before = place.read_bytes() if place.exists() else b""
        with started("import", file, "--partitions", "3", url=url) as running:
            if kills % 2 == 0:  # at work
                while running.poll() is None and (not place.exists() or place.read_bytes() == before):
                    time.sleep(0.001)
            pause_s = chance.uniform(0, 0.02) if kills % 2 == 0 else chance.uniform(0.3, 1.2)
            try:
                running.communicate(timeout=pause_s if kills < 6 else 300)
                assert running.returncode == 0
                break
            except subprocess.TimeoutExpired:
                running.send_signal(signal.SIGKILL)
                kills += 1
    numbers = [message.headers["n"].as_int64() for t in (0, 1) for message in read_all(url, f"shop/t{t}")]
    assert sorted(numbers) == list(range(count)), f"seed {seed}"
    assert kills > 0


def test_import_interrupted_by_ctrl_c_ends_with_130_and_goes_on(url: str, tmp_path: Path) -> None:
    file = tmp_path / "in.jsonl"
    lines = 40_000
    with file.open("w") as out:
        out.writelines('{"topic": "shop/orders", "payload": "AAAA"}\n' for _ in range(lines))
    with started("import", file, url=url) as running:
        deadline = time.monotonic() + 120
        while not Path(f"{file}.progress").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=120)
        assert running.returncode == 130
        assert err == b"\ninterrupted\n"
    assert read_json("import", file, url=url)["lines"] == lines
    assert len(read_all(url, TOPIC)) == lines


@pytest.mark.parametrize(
    "arguments",
    [["jars"], ["demo"], ["replicate", "run", "--topics", "a/b", "--tables", "tables", "--checkpoint", "checkpoint"]],
    ids=" ".join,
)
def test_without_java_it_says_what_to_install(arguments: list[str], url: str, tmp_path: Path) -> None:
    ran = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        cwd=tmp_path,
        env={**environment(url, PATH=str(tmp_path)), "JAVA_HOME": ""},
        timeout=180,
        check=False,
    )
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"Error: Spark requires Java")
    assert b"Install" in ran.stderr
    assert b"Traceback" not in ran.stderr
    assert list(tmp_path.iterdir()) == []


def test_export_feeds_inspect(url: str) -> None:
    message = {"data": {"ID": 1}, "beforeData": None, "headers": {"operation": "INSERT", "changeSequence": ""}}
    run("topic", "create", "cdc/data", url=url)
    run("send", "cdc/data", "-", url=url, stdin=json.dumps(message).encode())
    run("send", "cdc/data", "nonsense", url=url)
    exported = run("export", "cdc/data", url=url).stdout
    ran = run("replicate", "inspect", "-", "--output", "jsonl", stdin=exported, code=1)
    first, second = map(json.loads, ran.stdout.splitlines())
    assert (first["operation"], first["data"]) == ("INSERT", {"ID": 1})
    assert second["fault"].startswith("the bytes are not a Replicate message")
