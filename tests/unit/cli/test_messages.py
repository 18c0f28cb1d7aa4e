"""send, poll and tail at a prompt: what is asked, refused and printed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

import headstream as hs
from headstream.cli.shared.header_text import parse_header
from tests.support.cli_inputs import invoke


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"file://{tmp_path}/log"
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=2)
        with log.producer("shop/orders") as producer:
            for number in range(6):
                headers = {"attempt": hs.uint8(number), "fast": True}
                producer.send(b'{"n":%d}' % number, key=b"k%d" % number, headers=headers, partition=number % 2 + 1)
                producer.flush()
    return url


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("a=uint9:3", "Use uint8, or string:uint9:3 for exactly this string"),
        ("a=UINT8:3", "Use uint8, or string"),
        ("a=sting:3", "Use string"),
        ("attempt:uint8=3", "Write attempt=uint8:3, or attempt:uint8=string:3 for exactly this key"),
        ("attempt:uint9=3", "Write attempt=uint8:3"),
    ],
)
def test_parse_header_names_the_nearest_kind_when_there_is_no_such_kind(text: str, advice: str) -> None:
    with pytest.raises(hs.HeaderError) as error:
        parse_header(text)
    assert advice in str(error.value)


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("a=string:uint9:3", "a", "uint9:3"),
        ("a=http://host", "a", "http://host"),
        ("a=card:visa", "a", "card:visa"),
        ("a=12:30", "a", "12:30"),
        ("a:b=c", "a:b", "c"),
        ("attempt:uint8=string:3", "attempt:uint8", "3"),
    ],
)
def test_parse_header_takes_other_text_as_a_string(text: str, key: str, value: str) -> None:
    assert parse_header(text) == (key, hs.string(value))


def test_poll_reads_all_partitions_as_the_client_does(url: str) -> None:
    shown = json.loads(invoke("poll", "shop/orders", "--output", "json", url=url).output)
    with hs.connect(url) as log:
        polled = log.poll("shop/orders")
        newest = log.poll("shop/orders", start="last", count=2)
        assert [message.payload for message in log.poll("shop/orders", 2)] == [b'{"n":1}', b'{"n":3}', b'{"n":5}']
    assert [(message["partition"], message["offset"]) for message in shown] == [(m.partition, m.offset) for m in polled]
    assert len(polled) == 6
    assert [message.payload for message in newest] == [b'{"n":4}', b'{"n":5}']


def test_poll_last_and_format_print_the_newest_by_a_template(url: str) -> None:
    result = invoke(
        "poll", "shop/orders", "--last", "2", "--format", r"%t %p:%o %k %h{attempt} %h{fast} %h{none}|%R %s%%\n", url=url
    )
    assert result.output == 'shop/orders 1:2 k4 4 true |7 {"n":4}%\nshop/orders 2:2 k5 5 true |7 {"n":5}%\n'


@pytest.mark.parametrize(
    ("form", "payload"), [("text", '{"n":0}'), ("json", {"n": 0}), ("hex", "7b226e223a307d"), ("base64", "eyJuIjowfQ==")]
)
def test_payloads_are_written_as_asked(form: str, payload: object, url: str) -> None:
    line = invoke("poll", "shop/orders", "--count", "1", "--output", "jsonl", "--payload-as", form, url=url).output
    assert json.loads(line)["payload"] == payload
    assert ("payload_as" in line) is (form != "base64")


def test_ids_are_uuid_text_in_json_and_both_are_read(url: str) -> None:
    with hs.connect(url) as log:
        message_id = hs.uint128(log.poll("shop/orders", 1, count=1)[0].id)
    line = json.loads(invoke("poll", "shop/orders", "--count", "1", "--output", "jsonl", url=url).output)
    assert uuid.UUID(line["id"]).bytes == int(message_id).to_bytes(16, "little")
    for spelled in (line["id"], int(message_id)):
        given = json.dumps({"topic": "shop/copies", "payload": "eA==", "id": spelled})
        invoke("import", "-", url=url, given=given)
    with hs.connect(url) as log:
        assert {message.id for message in log.poll("shop/copies")} == {int(message_id)}


def test_send_takes_keys_from_lines_and_names_the_line_that_cannot_be_sent(url: str) -> None:
    invoke("send", "shop/orders", "--lines", "--key-delimiter", ":", "--partition", "1", url=url, given="a:1\nb:2:3\n")
    with hs.connect(url) as log:
        sent = log.poll("shop/orders", 1, start="last", count=2)
    assert [(message.key, message.payload) for message in sent] == [(b"a", b"1"), (b"b", b"2:3")]
    result = invoke("send", "shop/orders", "--lines", url=url, code=1, given="a\n\nb\n")
    assert "line 2 of standard input; 1 message before it was sent" in result.output
    result = invoke("send", "shop/orders", "--lines", "--key-delimiter", ":", url=url, code=1, given="a\n")
    assert "line 1 of standard input: the line has no ':'" in result.output or "the line has no ':'" in result.output
    assert (
        "--key-delimiter requires --lines" in invoke("send", "shop/orders", "x", "--key-delimiter", ":", url=url, code=2).output
    )


def test_tail_last_shows_the_newest_messages_first(url: str) -> None:
    result = invoke("tail", "shop/orders", "--last", "3", "--count", "3", "--format", "%s", url=url)
    assert result.output.splitlines() == ['{"n":3}', '{"n":4}', '{"n":5}']


def test_tail_of_a_group_commits_what_was_shown(url: str) -> None:
    invoke("tail", "shop/orders", "--group", "audit", "--from", "first", "--count", "6", url=url)
    with hs.connect(url) as log:
        assert log.group("shop/orders", "audit").lag == 0
    lag = invoke("group", "lag", "shop/orders", "audit", url=url).output.splitlines()
    assert lag[-1].split() == ["total", "0"]


def test_tail_ends_soon_after_its_reader(url: str) -> None:
    """`tail | head -1` ends without waiting for another message."""
    command = [sys.executable, "-m", "headstream.cli", "tail", "shop/orders", "--from", "first", "--url", url]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    tail = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert tail.stdout is not None
    assert tail.stdout.readline()
    tail.stdout.close()
    assert tail.wait(timeout=30) == 0
    assert tail.stderr is not None
    assert tail.stderr.read() == b""
    tail.stderr.close()


def test_send_of_lines_tells_which_line_has_no_key_and_how_many_were_sent_before_it(url: str) -> None:
    refused = invoke("send", "shop/orders", "--lines", "--key-delimiter", ":", url=url, code=1, given="k1:a\nnothing\nk2:b\n")
    assert "the line has no ':' (line 2 of standard input; 1 message before it was sent)" in refused.output
    with hs.connect(url) as log:
        assert [message.payload for message in log.poll("shop/orders") if message.key == b"k1"][-1] == b"a"


def test_commands_print_the_name_of_what_was_named_by_its_id(url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/prices")
    sent = json.loads(invoke("send", "1/1", "x", "--output", "json", url=url).output)
    assert sent == {"topic": "shop/orders", "partition": 1, "sent": 1}
    changed = invoke("partition", "set-state", "1/1", "poisoned", "0", "--output", "json", url=url).output
    assert json.loads(changed)["topic"] == "shop/orders"
    refused = invoke("topic", "delete", "1/2", url=url, code=2)
    assert "Delete topic shop/prices with 0 messages" in refused.output
    for arguments, printed in (
        (("topic", "purge", "1/2"), {"purged": "shop/prices"}),
        (("topic", "delete", "1/2"), {"deleted": "shop/prices"}),
        (("stream", "delete", "1"), {"deleted": "shop"}),
    ):
        assert json.loads(invoke(*arguments, "--yes", "--output", "json", url=url).output) == printed
