"""`headstream group`: how far groups have come, and where they go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import headstream as hs
from headstream.cli.main import cli


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = (tmp_path / "log").as_uri()
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=2)
        with log.producer("shop/orders") as producer:
            for number in range(4):
                producer.send(b"%d" % number, partition=2)
        with log.consumer("shop/orders", group="billing") as consumer:
            next(consumer)
    return url


def run(url: str, *arguments: str, form: str = "json") -> Any:
    result = CliRunner().invoke(cli, ["group", *arguments, "--url", url, "--output", form])
    assert result.exit_code == 0, result.output
    return json.loads(result.output) if form == "json" else result.output


def test_groups_are_listed_and_shown(url: str) -> None:
    summary = {"group": "billing", "topic": "shop/orders", "lag": 3, "process": None}
    assert run(url, "list", "shop/orders") == [summary]
    shown = run(url, "show", "shop/orders", "billing")
    places, deliveries = shown.pop("partitions"), shown.pop("deliveries")
    assert shown == summary
    assert [each["pending"] for each in deliveries.pop("partitions")] == [0, 3]
    assert deliveries == {
        "state": "running",
        "paused_since_us": None,
        "paused_until_us": None,
        "failed_attempts": 0,
        "last_attempts": 0,
        "pauses": 0,
    }
    assert places == run(url, "lag", "shop/orders", "billing") == [
        {"partition": 1, "committed": None, "first_offset": 0, "end_offset": 0, "lag": 0, "member": None},
        {"partition": 2, "committed": 1, "first_offset": 0, "end_offset": 4, "lag": 3, "member": None},
    ]  # fmt: skip
    table = run(url, "show", "shop/orders", "billing", form="table")
    assert "billing" in table
    assert "end_offset" in table


def _fail(_: hs.ReceivedMessage) -> None:
    raise ValueError("no total")


def test_a_group_tells_of_its_pause_and_of_one_message(url: str) -> None:
    retry = hs.Retry(9, "1h", "1h", order="skip", pause="1h", pause_attempts=2)
    options: dict[str, Any] = {"on_error": retry, "dead_letter": "shop/dead", "timeout_ms": 0}
    with hs.connect(url) as log, log.consumer("shop/orders", group="audit", **options) as consumer:
        consumer.run(_fail)
        pause = run(url, "show", "shop/orders", "audit")["deliveries"]
    assert (pause["state"], pause["failed_attempts"], pause["last_attempts"], pause["pauses"]) == ("paused", 2, 2, 1)
    assert pause["paused_until_us"] - pause["paused_since_us"] == 3_600_000_000
    shown = run(url, "show", "shop/orders", "audit", form="table")
    assert "paused_until" in shown
    assert "oldest_leased" in shown
    told = run(url, "message", "shop/orders", "audit", "2", "1")
    assert (told["status"], told["failures"], told["letter"]) == ("delayed", 1, None)
    assert [attempt["error"] for attempt in told["attempts"]] == ["ValueError: no total"]
    table = run(url, "message", "shop/orders", "audit", "2", "1", form="table")
    assert "ValueError" in table
    assert "next_attempt" in table
    assert "lease_until" not in table
    refused = CliRunner().invoke(cli, ["group", "message", "shop/orders", "audit", "2", "4", "--url", url])
    assert (refused.exit_code, "has no message 4" in refused.output) == (1, True)


def test_a_group_is_made_where_it_begins(url: str) -> None:
    assert run(url, "create", "shop/orders", "audit") == {"group": "audit", "topic": "shop/orders", "lag": 4, "process": None}
    assert run(url, "create", "shop/orders", "late", "--at", "last")["lag"] == 0
    assert [row["group"] for row in run(url, "list", "shop/orders")] == ["audit", "billing", "late"]
    refused = CliRunner().invoke(cli, ["group", "create", "shop/orders", "audit", "--at", "last", "--url", url])
    assert (refused.exit_code, "'audit' already exists" in refused.output) == (1, True)
    assert run(url, "show", "shop/orders", "audit")["lag"] == 4


def test_group_show_names_the_member_of_each_partition(url: str) -> None:
    with hs.connect(url) as log, log.consumer("shop/orders", group="billing", timeout_ms=0) as consumer:
        assert [message.payload for message in consumer] == [b"1", b"2", b"3"]
        (member,) = log.group("shop/orders", "billing").members
        assert [row["member"] for row in run(url, "lag", "shop/orders", "billing")] == [member.id] * 2


def test_a_group_is_moved_and_deleted(url: str) -> None:
    assert [row["lag"] for row in run(url, "seek", "shop/orders", "billing", "first")] == [0, 4]
    assert [row["lag"] for row in run(url, "seek", "shop/orders", "billing", "2", "--partition", "2")] == [0, 2]
    assert [row["lag"] for row in run(url, "seek", "shop/orders", "new", "last")] == [0, 0]
    assert [row["group"] for row in run(url, "list", "shop/orders")] == ["billing", "new"]
    assert run(url, "delete", "shop/orders", "new", "--yes") == {"deleted": "new", "topic": "shop/orders"}
    assert [row["group"] for row in run(url, "list", "shop/orders")] == ["billing"]


def test_group_command_fails_for_a_missing_group_an_invalid_offset_and_a_group_in_use(url: str) -> None:
    for arguments, code, text in (
        (["show", "shop/orders", "none"], 1, "has no group 'none'"),
        (["seek", "shop/orders", "billing", "9"], 1, "offset 9 is not in partition"),
        (["seek", "shop/orders", "billing", "soon"], 2, "is not a valid start"),
    ):
        result = CliRunner().invoke(cli, ["group", *arguments, "--url", url])
        assert (result.exit_code, text in result.output) == (code, True), result.output
    with hs.connect(url) as log, log.consumer("shop/orders", group="billing"):
        result = CliRunner().invoke(cli, ["group", "delete", "shop/orders", "billing", "--yes", "--url", url])
        assert (result.exit_code, "is in use" in result.output) == (1, True)
