"""`headstream partition`, and what a topic keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import headstream as hs
from headstream.cli.main import cli

SCHEMAS = json.loads((Path(__file__).parents[3] / "docs/cli-output.json").read_text("utf-8"))["$defs"]
OPTIONS = ("retention", "retention_bytes", "compaction", "deduplication")


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = (tmp_path / "log").as_uri()
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=2)
        with log.producer("shop/orders") as producer:
            for number in range(4):
                producer.send(b"%d" % number, partition=2)
    return url


def run(url: str, *arguments: str, form: str = "json") -> Any:
    result = CliRunner().invoke(cli, [*arguments, "--url", url, "--output", form])
    assert result.exit_code == 0, result.output
    return json.loads(result.output) if form == "json" else result.output


def test_partitions_are_listed_and_shown(url: str) -> None:
    first, second = run(url, "partition", "list", "shop/orders")
    assert first == {"partition": 1, "first_offset": 0, "end_offset": 0, "messages": 0, "size_bytes": 0}
    assert (second["messages"], second["end_offset"], second["size_bytes"] > 0) == (4, 4, True)
    assert run(url, "partition", "show", "shop/orders", "2") == second
    assert run(url, "topic", "show", "shop/orders")["partitions"] == [first, second]
    refused = CliRunner().invoke(cli, ["partition", "show", "shop/orders", "3", "--url", url])
    assert (refused.exit_code, "there is no partition 3" in refused.output) == (1, True)


def test_partitions_are_created_and_deleted(url: str) -> None:
    assert run(url, "partition", "create", "shop/orders", "--count", "3") == {"topic": "shop/orders", "partitions": 5}
    assert run(url, "partition", "delete", "shop/orders", "--count", "4", "--yes") == {"topic": "shop/orders", "partitions": 1}
    refused = CliRunner().invoke(cli, ["partition", "delete", "shop/orders", "--yes", "--url", url])
    assert (refused.exit_code, "cannot delete 1 of 1 partitions" in refused.output) == (2, True)


def test_states_are_set_and_shown_with_their_reason(url: str) -> None:
    where = ("--partition", "2")
    done = run(url, "partition", "set-state", "shop/orders", "poisoned", "3", "1", *where, "--reason", "no JSON", "--by", "ops")
    assert done == {"topic": "shop/orders", "partition": 2, "state": "poisoned", "messages": 2}
    shown = run(url, "partition", "states", "shop/orders", *where)
    assert [(row["offset"], row["state"], row["reason"], row["by"]) for row in shown] == [
        (1, "poisoned", "no JSON", "ops"), (3, "poisoned", "no JSON", "ops")
    ]  # fmt: skip
    assert "no JSON" in run(url, "partition", "states", "shop/orders", *where, form="table")
    run(url, "partition", "set-state", "shop/orders", "available", "1", "3", *where)
    assert run(url, "partition", "states", "shop/orders", *where) == []


def test_a_topic_is_purged(url: str) -> None:
    assert run(url, "topic", "purge", "shop/orders", "--yes") == {"purged": "shop/orders"}
    assert run(url, "topic", "show", "shop/orders")["messages"] == 0


def test_a_topic_says_what_it_keeps(url: str) -> None:
    made = run(url, "topic", "create", "web/clicks", "--retention", "7d", "--retention-bytes", "10GB")
    assert (made["retention_us"], made["retention_bytes"]) == (7 * 86_400_000_000, 10**10)
    changed = run(url, "topic", "update", "web/clicks", "--retention", "90s")
    assert (changed["retention_us"], changed["retention_bytes"]) == (90_000_000, 10**10)
    changed = run(url, "topic", "update", "web/clicks", "--retention", "forever", "--compaction", "0s")
    assert (changed["retention_us"], changed["retention_bytes"], changed["compaction_delay_us"]) == (None, 10**10, 0)
    changed = run(url, "topic", "update", "web/clicks", "--compaction", "none", "--deduplication", "1000")
    assert (changed["compaction_delay_us"], changed["deduplication_count"]) == (None, 1000)
    assert run(url, "topic", "update", "web/clicks") == changed
    assert run(url, "topic", "show", "shop/orders")["retention_us"] is None


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ((), {}),
        (("--retention", "7d", "--retention-bytes", "10GB"), {"retention": "7d", "retention_bytes": "10GB"}),
        (("--retention", "90s", "--retention-bytes", "1500"), {"retention": "90s", "retention_bytes": "1500B"}),
        (("--compaction", "36h", "--deduplication", "100000"), {"compaction": "36h", "deduplication": "100000"}),
        (("--compaction", "0s"), {"compaction": "0d"}),
    ],
)
def test_a_topic_shows_its_options_as_they_are_said(url: str, said: tuple[str, ...], shown: dict[str, str]) -> None:
    lines = run(url, "topic", "create", "shop/kept", *said, form="table").splitlines()
    fields = dict(line.split(maxsplit=1) for line in lines[: lines.index("")])
    assert {name: value for name, value in fields.items() if name in OPTIONS} == shown


def test_a_topic_shows_an_age_that_no_unit_spells(url: str) -> None:
    with hs.connect(url) as log:
        log.create_topic("shop/kept", retention_us=1_500_000)
    assert "1500000us" in run(url, "topic", "show", "shop/kept", form="table")


def test_the_story_of_a_message_has_its_state_and_what_each_group_did(url: str) -> None:
    options: dict[str, Any] = {"on_error": hs.Retry(2, "1h", "1h"), "dead_letter": "shop/dead", "timeout_ms": 0}
    with hs.connect(url) as log:
        for group, reject in (("billing", True), ("audit", False)):
            with log.consumer("shop/orders", group=group, **options) as consumer:
                message = next(consumer)
                if reject:
                    consumer.reject(message, reason="unwanted")
                else:
                    consumer.retry(message, reason=ValueError("no"))
        log.set_state("shop/orders", 2, 0, "poisoned", reason="not JSON", by="ops")
    history = run(url, "partition", "states", "shop/orders", "--partition", "2", "--offset", "0")
    jsonschema.validate(history, {"$ref": "#/$defs/message_states", "$defs": SCHEMAS})
    assert (history["state"], history["reason"], history["by"]) == ("poisoned", "not JSON", "ops")
    audit, billing = history["groups"]
    assert (audit["group"], audit["status"], audit["failures"], audit["attempts"][0]["error"]) == (
        *("audit", "delayed", 1),
        "ValueError: no",
    )
    assert (billing["status"], billing["reason"], billing["letter"]) == (
        *("poisoned", "rejected"),
        {"topic": "shop/dead", "partition": 1, "offset": 0},
    )
    table = run(url, "partition", "states", "shop/orders", "--partition", "2", "--offset", "0", form="table")
    assert all(text in table for text in ("not JSON", "ops", "delayed", "shop/dead 1 0", "ValueError: no"))
    available = run(url, "partition", "states", "shop/orders", "--partition", "2", "--offset", "3")
    jsonschema.validate(available, {"$ref": "#/$defs/message_states", "$defs": SCHEMAS})
    assert (available["state"], available["changed_us"]) == ("available", None)
    assert [each["status"] for each in available["groups"]] == ["pending", "pending"]
