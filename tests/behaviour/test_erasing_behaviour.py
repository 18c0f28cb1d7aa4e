"""Erasing messages by a filter, through every kind of log, and what the command says about it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headstream as hs
from headstream.client.dead_letters.erasing import ERASURE_REASON, ErasedPartition, Erasure, find_dead_letter_topics
from headstream.errors import HeaderError, LegalHoldError, OffsetOutOfRangeError
from tests.behaviour.conftest import Place
from tests.support.cli_inputs import run
from tests.support.crashes import fail_with
from tests.support.log.erased_logs import find_bytes
from tests.support.waiting import wait_until

TOPIC = "shop/orders"
DEAD = "shop/orders.dead"
ALL: dict[str, Any] = {"count": 1000, "states": None}


def send_users(log: hs.Client, topic: str, *users: int, partition: int = 1) -> None:
    with log.producer(topic) as producer:
        for user in users:
            producer.send(b"order of user <%d>" % user, headers={"user_id": user}, partition=partition)


def erase(log: hs.Client, topic: str, where: str, **options: Any) -> list[ErasedPartition]:
    erasure = Erasure(log, topic, where, **options)
    erasure.find()
    return erasure.run()


def offsets(log: hs.Client, topic: str, partition: int = 1) -> list[int]:
    return [message.offset for message in log.poll(topic, partition, start="first", **ALL)]


def test_the_messages_that_match_are_gone_in_whatever_state_and_the_others_stay(log: hs.Client) -> None:
    send_users(log, "shop/carts", *range(10), partition=1)
    send_users(log, "shop/carts", 4, 5, 4, partition=3)
    log.set_state("shop/carts", 1, [4], "poisoned")
    log.set_state("shop/carts", 3, [0], "marked_for_deletion", reason="a mistake")
    erased = erase(log, "shop/carts", "user_id = 4")
    assert [(each.number, list(each.offsets), each.removal.removed_count) for each in erased] == [
        (1, [4], 1), (2, [], 0), (3, [0, 2], 2),
    ]  # fmt: skip
    assert offsets(log, "shop/carts", 1) == [0, 1, 2, 3, 5, 6, 7, 8, 9]
    assert offsets(log, "shop/carts", 3) == [1]
    assert log.states("shop/carts", 1) == log.states("shop/carts", 3) == []
    with pytest.raises(OffsetOutOfRangeError, match="the message at offset 4 no longer exists"):
        log.set_state("shop/carts", 1, 4, "available")
    send_users(log, "shop/carts", 11, partition=3)
    assert offsets(log, "shop/carts", 3) == [1, 3]


def test_an_interrupted_erasure_is_finished_by_the_next_one(log: hs.Client) -> None:
    send_users(log, TOPIC, 1, 2, 3)
    log.set_state(TOPIC, 1, [1], "marked_for_deletion", reason=ERASURE_REASON)  # killed before the removal
    erased = erase(log, TOPIC, "user_id = 4")
    assert [(list(each.offsets), each.removal.removed_count) for each in erased] == [([], 1)]
    assert offsets(log, TOPIC) == [0, 2]


def test_readers_skip_marked_messages_at_once(place: Place, log: hs.Client) -> None:
    send_users(log, TOPIC, 1, 2, 3)
    reader = place.connect()
    assert len(reader.poll(TOPIC)) == 3
    log.set_state(TOPIC, 1, [1], "marked_for_deletion")
    assert [message.offset for message in reader.poll(TOPIC, start="first")] == [0, 2]
    with reader.consumer(TOPIC, group="g", timeout_ms=0) as consumer:
        assert [message.offset for message in consumer] == [0, 2]
    assert [message.offset for message in reader.poll(TOPIC, where="user_id > 0", start="first")] == [0, 2]


@pytest.mark.parametrize("looks_between", [False, True], ids=["not meanwhile", "meanwhile"])
def test_no_reader_that_had_erased_messages_open_gets_them_again(place: Place, log: hs.Client, looks_between: bool) -> None:
    send_users(log, TOPIC, 1, 2, 3, 4, 5)
    readers = [log, place.connect()]

    def look() -> list[list[int]]:
        """Read from an offset, all at once and one by one: such reads need no look at the directory."""
        found = []
        for reader in readers:
            found.append([message.offset for message in reader.poll(TOPIC, 1, start=0, count=100)])
            found.append([message.offset for at in range(5) for message in reader.poll(TOPIC, 1, start=at, count=1)])
        return found

    assert look() == [[0, 1, 2, 3, 4]] * 4
    for number, offset in enumerate((1, 3), 1):
        log.set_state(TOPIC, 1, [offset], "marked_for_deletion", reason=ERASURE_REASON)
        if looks_between:
            assert all(offset not in seen for seen in look())
        assert log.remove_marked(TOPIC, 1, reason=ERASURE_REASON).removed_count == 1
        left = [each for each in range(5) if each not in (1, 3)[:number]]
        one_by_one = [next(each for each in left if each >= at) for at in range(5)]
        assert look() == [left, one_by_one] * 2
        assert len(readers[1].poll(TOPIC, 1, start=0, **ALL)) == len(left)


def test_marked_messages_leave_the_disk_by_themselves(log: hs.Client) -> None:
    log.update_topic(TOPIC, deletion_grace_us=0)
    send_users(log, TOPIC, 1, 2, 3)
    log.set_state(TOPIC, 1, [1, 2], "marked_for_deletion")
    wait_until(lambda: log.topic(TOPIC).messages_count == 1 and not log.states(TOPIC))
    assert offsets(log, TOPIC) == [0]


def test_a_held_topic_is_shown_so_and_erases_nothing(log: hs.Client) -> None:
    send_users(log, TOPIC, 1, 2)
    assert (log.topic(TOPIC).legal_hold, log.topic(TOPIC).deletion_grace_us) == (False, 7 * 86_400_000_000)
    log.update_topic(TOPIC, legal_hold=True, deletion_grace_us=10**10)
    assert (log.topic(TOPIC).legal_hold, log.topic(TOPIC).deletion_grace_us) == (True, 10**10)
    with pytest.raises(LegalHoldError, match="'shop/orders' is under legal hold"):
        Erasure(log, TOPIC, "user_id = 1").find()
    for remove in (
        lambda: log.remove_marked(TOPIC, 1, reason="why"),
        lambda: log.purge_topic(TOPIC),
        lambda: log.delete_topic(TOPIC),
        lambda: log.delete_stream("shop"),
    ):
        with pytest.raises(LegalHoldError, match="'shop/orders' is under legal hold"):
            remove()
    assert log.update_topic(TOPIC, legal_hold=False).legal_hold is False
    assert erase(log, TOPIC, "user_id = 1")[0].removal.removed_count == 1


def test_a_filter_that_cannot_be_applied_is_counted_or_stops_before_anything_is_changed(log: hs.Client) -> None:
    send_users(log, TOPIC, 1, 2)
    with log.producer(TOPIC) as producer:
        producer.send(b"x", headers={"user_id": "one"})
    with pytest.raises(HeaderError, match="cannot be applied to the message at offset 2"):
        erase(log, TOPIC, "user_id = 1", on_error="raise")
    assert log.states(TOPIC) == []
    assert [(list(each.offsets), each.failed_count) for each in erase(log, TOPIC, "user_id = 1")] == [([0], 1)]


def give_up(log: hs.Client, topic: str) -> None:
    """Put all messages of a topic into its dead-letter topic."""
    log.create_topic(DEAD, if_not_exists=True)

    with log.consumer(topic, group="billing", on_error=hs.Retry(attempts=1), dead_letter=DEAD, timeout_ms=0) as consumer:
        consumer.run(fail_with(ValueError("no")))


def test_copies_in_a_dead_letter_topic_are_found_and_erased_when_it_is_named(log: hs.Client) -> None:
    send_users(log, TOPIC, 1, 2)
    send_users(log, "shop/carts", 1)
    for topic in (TOPIC, "shop/carts"):
        give_up(log, topic)
    assert len(offsets(log, DEAD)) == 3
    assert find_dead_letter_topics(log, TOPIC) == [DEAD]
    erase(log, TOPIC, "user_id = 1")
    assert len(offsets(log, DEAD)) == 3
    erase(log, TOPIC, "user_id = 1", dead_letters=[DEAD])
    assert [message.payload for message in log.poll(DEAD, start="first", **ALL)] == [b"order of user <2>", b"order of user <1>"]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with hs.connect(f"file://{tmp_path / 'log'}", segment_bytes=4096) as log:
        log.create_topic(TOPIC)
        for user in range(200):
            send_users(log, TOPIC, user)
    return tmp_path / "log"


def test_the_command_reports_asks_and_leaves_no_byte(directory: Path) -> None:
    url = f"file://{directory}"
    arguments = ("erase", TOPIC, "--where", "user_id IN (7, 199)", "--output", "json")
    dry = json.loads(run(*arguments, "--dry-run", url=url).stdout)
    assert (dry["found"], dry["removed"], dry["dry_run"]) == (2, 0, True)
    assert dry["found_bytes"] == sum(each["found_bytes"] for each in dry["partitions"]) > 100
    assert find_bytes(directory, "<199>")
    refused = run(*arguments, url=url, code=2)
    assert b"Erase 2 messages" in refused.stderr
    assert find_bytes(directory, "<7>")
    done = json.loads(run(*arguments, "--yes", url=url).stdout)
    assert (done["found"], done["removed"], done["rewritten_segments"] > 0) == (2, 2, True)
    assert any("backups" in line for line in done["remains"])
    assert find_bytes(directory, "<7>") == find_bytes(directory, "<199>") == []
    assert find_bytes(directory, "<8>")
    again = json.loads(run(*arguments, "--yes", url=url).stdout)
    assert (again["found"], again["removed"]) == (0, 0)


def test_the_command_names_files_that_were_set_aside(directory: Path) -> None:
    (directory / "streams" / "1" / "1" / "1" / "00000000000000000000.log.rest-45").write_bytes(b"order of user <7>")
    done = json.loads(
        run("erase", TOPIC, "--where", "user_id = 7", "--yes", "--output", "json", url=f"file://{directory}").stdout
    )
    assert any("00000000000000000000.log.rest-45" in line for line in done["remains"])
    assert b"Not examined" in run("erase", TOPIC, "--where", "user_id = 7", "--dry-run", url=f"file://{directory}").stdout


def test_a_topic_shows_hold_and_grace(directory: Path) -> None:
    url = f"file://{directory}"
    shown: Callable[[], bytes] = lambda: run("topic", "show", TOPIC, url=url).stdout  # noqa: E731
    assert b"legal_hold" in shown()
    run("topic", "update", TOPIC, "--legal-hold", "on", "--deletion-grace", "12h", url=url)
    assert json.loads(run("topic", "show", TOPIC, "--output", "json", url=url).stdout)["legal_hold"] is True
    assert b"12h" in shown()
    refused = run("erase", TOPIC, "--where", "user_id = 7", "--yes", url=url, code=1)
    assert b"is under legal hold" in refused.stderr
    assert b"is under legal hold" in run("topic", "purge", TOPIC, "--yes", url=url, code=1).stderr
