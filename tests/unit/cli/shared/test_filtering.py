"""--where, --on-filter-error and --explain of poll, tail and export."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import headstream as hs
from tests.support.cli_inputs import invoke

DOCUMENT: dict[str, Any] = json.loads((Path(__file__).parents[4] / "docs/cli-output.json").read_text("utf-8"))


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"file://{tmp_path}/log"
    with hs.connect(url) as log:
        log.create_topic("shop/orders", partitions=2)
        with log.producer("shop/orders") as producer:
            for number in range(10):
                attempt = "many" if number == 9 else hs.uint8(number)
                producer.send(b"x", headers={"attempt": attempt, "even": number % 2 == 0}, partition=number % 2 + 1)
                producer.flush()
        log.set_state("shop/orders", 1, [4], "poisoned")  # attempt 8
    return url


def attempts(*arguments: str, url: str) -> list[Any]:
    lines = [json.loads(line) for line in invoke(*arguments, "--output", "jsonl", url=url).stdout.splitlines()]
    return sorted((next(h["value"] for h in line["headers"] if h["key"] == "attempt") for line in lines), key=str)


@pytest.mark.parametrize("command", [("poll",), ("export",), ("tail", "--from", "first", "--count", "3")])
def test_where_shows_only_messages_that_match(command: tuple[str, ...], url: str) -> None:
    assert attempts(command[0], "shop/orders", *command[1:], "--where", "attempt >= 5", url=url) == [5, 6, 7]


def test_where_is_applied_to_polls_of_every_start(url: str) -> None:
    even = ("--where", "even AND attempt > 0")
    assert attempts("poll", "shop/orders", "--count", "2", *even, url=url) == [2, 4]
    assert attempts("poll", "shop/orders", "--partition", "1", "--offset", "2", *even, url=url) == [4, 6]
    assert attempts("poll", "shop/orders", "--offset", "0", "--until", "3", *even, url=url) == [2, 4]
    assert attempts("poll", "shop/orders", "--offset", "next", "--count", "1", *even, url=url) == [2]
    assert attempts("poll", "shop/orders", "--offset", "next", *even, url=url) == [4, 6]
    assert attempts("poll", "shop/orders", "--states", "all", "--where", "_state = 'poisoned'", url=url) == [8]


def test_on_filter_error_decides_about_messages_of_another_kind(url: str) -> None:
    where = ("--where", "attempt > 6")
    assert attempts("poll", "shop/orders", *where, url=url) == [7]
    assert attempts("poll", "shop/orders", *where, "--on-filter-error", "deliver", url=url) == [7, "many"]
    result = invoke("export", "shop/orders", "--partition", "2", *where, "--on-filter-error", "raise", url=url, code=1)
    assert len(result.stdout.splitlines()) == 1
    assert "at offset 4: it compares the header 'attempt', of kind string, with 6" in result.stderr


@pytest.mark.parametrize("command", ["poll", "tail", "export"])
def test_explain_shows_how_a_filter_is_evaluated_instead_of_messages(command: str, url: str) -> None:
    where = "even AND _offset > 3"
    plan = json.loads(invoke(command, "shop/orders", "--where", where, "--explain", "--output", "json", url=url).stdout)
    assert (plan["where"], plan["headers"], plan["fields"]) == (where, ["even"], ["_offset"])
    assert (plan["evaluated"], plan["states"], plan["on_filter_error"]) == ("in this process", "available", "skip")
    jsonschema.validate(plan, {"$ref": "#/$defs/filter_plan", "$defs": DOCUMENT["$defs"]})


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (("poll", "shop/orders", "--where", "attempt >="), "a value after >= is expected, not the end"),
        (("poll", "shop/orders", "--explain"), "--explain requires --where"),
        (("poll", "shop/orders", "--where", "_state = 'poisoned'"), "only available messages are requested"),
        (("poll", "shop/orders", "--last", "3", "--where", "even"), "the newest messages cannot be filtered"),
        (("tail", "shop/orders", "--last", "3", "--where", "even"), "--last excludes --where"),
    ],
)
def test_a_filter_that_cannot_be_used_is_misuse(arguments: tuple[str, ...], what: str, url: str) -> None:
    assert what in invoke(*arguments, url=url, code=2).stderr


def test_an_error_has_a_caret_below_the_character(url: str) -> None:
    lines = invoke("poll", "shop/orders", "--where", "attempt = = 3", url=url, code=2).stderr.splitlines()
    assert lines[-2].index("= 3") == lines[-1].index("^")
