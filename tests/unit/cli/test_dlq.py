"""`headstream dlq`: letters are shown, sent back once, and discarded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.client.dead_letters.redriving import Redrive
from headstream.testing.local_server import LocalServer
from tests.support.cli_inputs import invoke

TOPIC, DEAD = "shop/orders", "shop/dead"


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A log with three letters, one of them rejected, and a message that is no letter."""
    url = f"file://{tmp_path}/log"
    fill(url)
    return url


def fill(url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic(TOPIC, partitions=2)
        for number in range(4):
            log.send(TOPIC, b"%d" % number, key=b"k%d" % number, headers={"n": hs.uint8(number)}, id=number + 1, partition=2)
        retry = hs.Retry(1, delay="0s", max_delay="0s")
        with log.consumer(TOPIC, group="billing", on_error=retry, dead_letter=DEAD, timeout_ms=0) as consumer:
            messages = consumer.poll(4)
            consumer.reject(messages[0], reason="unwanted")
            consumer.retry(messages[1], reason=ValueError("no"))
            consumer.retry(messages[3], reason="no")
            consumer.ack(messages[2])
        log.send(DEAD, b"no letter")


def rows(*arguments: str, url: str) -> Any:
    return json.loads(invoke("dlq", *arguments, "--output", "json", url=url).stdout)


def test_list_and_show_tell_a_letters_story(url: str) -> None:
    found = rows("list", DEAD, "--where", "hs.origin.group = 'billing'", url=url)
    assert [(row["origin"], row["reason_code"], row["reason"]) for row in found] == [
        ("shop/orders/2/0", "rejected", "unwanted"),
        ("shop/orders/2/1", "max_attempts", "ValueError: no"),
        ("shop/orders/2/3", "max_attempts", "no"),
    ]
    shown = rows("show", DEAD, "1", "1", url=url)
    assert (shown["group"], shown["attempts"], shown["state"]) == ("billing", 1, "available")
    assert shown["first_error"] == "ValueError: no"
    assert shown["first_failed_us"] <= shown["last_failed_us"]
    invoke("dlq", "show", DEAD, "1", "17", url=url, code=1)
    assert "shop/orders/2/3" in invoke("dlq", "list", DEAD, url=url).stdout


def test_reasons_count_letters_by_origin_group_and_error(url: str) -> None:
    found = rows("reasons", DEAD, url=url)
    assert sorted(
        (row["topic"], row["group"], row["reason_code"], row["reason"], row["count"]) for row in found if row["topic"]
    ) == [
        (TOPIC, "billing", "max_attempts", "ValueError: no", 1),
        (TOPIC, "billing", "max_attempts", "no", 1),
        (TOPIC, "billing", "rejected", "unwanted", 1),
    ]
    (other,) = (row for row in found if row["topic"] is None)
    assert (other["count"], other["reason"], other["most_attempts"]) == (1, None, None)
    chosen = rows("reasons", DEAD, "--where", "hs.reason = 'no'", url=url)
    assert [(row["count"], row["most_attempts"]) for row in chosen] == [(1, 1)]
    assert chosen[0]["first_failed_us"] <= chosen[0]["last_failed_us"]


def test_redrive_sends_letters_back_whole_and_once(url: str) -> None:
    assert rows("redrive", DEAD, "--dry-run", url=url) == {
        "topic": DEAD, "dry_run": True, "matched": 4, "redriven": 0, "resumed": 0, "foreign": 1,
    }  # fmt: skip
    done = rows("redrive", DEAD, "--where", "hs.reason_code = 'max_attempts'", "--rate", "1000/s", url=url)
    assert (done["matched"], done["redriven"], done["foreign"]) == (2, 2, 0)
    again = rows("redrive", DEAD, "--where", "hs.reason_code = 'max_attempts'", url=url)
    assert (again["matched"], again["redriven"]) == (0, 0)
    with hs.connect(url) as log:
        copies = log.poll(TOPIC, 2, start=4)
        assert [(copy.payload, copy.key, copy.id) for copy in copies] == [(b"1", b"k1", 2), (b"3", b"k3", 4)]
        assert list(copies[0].headers.items()) == list(
            hs.Headers({"n": hs.uint8(1), "hs.redrive": "shop/dead/1/1", "hs.redrives": hs.int32(1)}).items()
        )
        retry = hs.Retry(1, delay="0s", max_delay="0s")
        with log.consumer(TOPIC, group="billing", on_error=retry, dead_letter=DEAD, timeout_ms=0) as consumer:
            consumer.run(lambda message: 1 / 0)
    assert rows("redrive", DEAD, "--where", "hs.redrives = 1 AND hs.attempts = 1 AND n = 3", url=url)["redriven"] == 1
    with hs.connect(url) as log:
        (copy,) = log.poll(TOPIC, 2, start=6)
        assert copy.payload == b"3"
        assert copy.headers["hs.redrives"] == 2
        assert [str(each) for each in copy.headers.getall("hs.redrive")] == ["shop/dead/1/5"]


def test_a_redrive_over_a_server_does_the_same() -> None:
    with LocalServer() as server:
        fill(server.url)
        assert rows("redrive", DEAD, url=server.url)["redriven"] == 3
        assert rows("redrive", DEAD, url=server.http_url)["redriven"] == 0


class _BrokenError(Exception):
    """The process was killed here."""


@pytest.mark.parametrize("step", ["before the append", "after the append"])
def test_an_interrupted_redrive_is_finished_by_the_next_one(url: str, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    append = Redrive._append

    def broken(self: Redrive, letter: hs.ReceivedMessage, topic: str, partition: int) -> None:
        if step == "after the append":
            append(self, letter, topic, partition)
        raise _BrokenError

    monkeypatch.setattr(Redrive, "_append", broken)
    with hs.connect(url) as log, pytest.raises(_BrokenError):
        Redrive(log, DEAD).run()
    monkeypatch.undo()
    done = rows("redrive", DEAD, "--where", "n = 77", url=url)
    assert (done["matched"], done["resumed"]) == (0, 1)
    assert rows("redrive", DEAD, url=url)["redriven"] == 2
    with hs.connect(url) as log:
        assert [copy.payload for copy in log.poll(TOPIC, 2, start=4, count=100)] == [b"0", b"1", b"3"]


def test_discard_marks_letters_after_a_confirmation(url: str) -> None:
    rejected = ("--where", "hs.reason_code = 'rejected'")
    assert rows("discard", DEAD, *rejected, "--dry-run", url=url)["discarded"] == 0
    invoke("dlq", "discard", DEAD, *rejected, url=url, code=2)
    assert rows("discard", DEAD, *rejected, "--yes", url=url)["discarded"] == 1
    assert len(rows("list", DEAD, url=url)) == 3
    with hs.connect(url) as log:
        assert [(change.offset, change.reason) for change in log.states(DEAD, 1)] == [(0, "discarded")]


def test_redrive_refuses_a_malformed_rate(url: str) -> None:
    for rate in ("fast", "0/s", "5"):
        invoke("dlq", "redrive", DEAD, "--rate", rate, url=url, code=2)
