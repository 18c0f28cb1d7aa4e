"""docs/cli-output.json: what commands print for programs has the shapes that are documented, as json and as jsonl."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from click.testing import CliRunner

import headstream as hs
from headstream.cli.main import cli
from headstream.testing import LocalServer

ROOT = Path(__file__).parents[2]
DOCUMENT: dict[str, Any] = json.loads((ROOT / "docs/cli-output.json").read_text("utf-8"))
# In this order each command finds what it needs; a tuple has what is typed.
HISTORY: list[tuple[str, str]] = [
    ("stream create", "shop"), ("topic create", "shop/orders --partitions 2"),
    ("send", "shop/orders hello --partition 1 --key k --header attempt=uint8:3"),
    ("stream list", ""), ("stream show", "shop"), ("topic list", ""), ("topic show", "shop/orders"),
    ("topic update", "shop/orders --retention 7d"), ("poll", "shop/orders"), ("tail", "shop/orders --from first --count 1"),
    ("export", "shop/orders"), ("import", "-"), ("mirror", "URL memory:// --topics shop/orders --once"),
    ("partition create", "shop/orders"),
    ("partition set-state", "shop/orders poisoned 0 --reason why"), ("partition states", "shop/orders"),
    ("group create", "shop/orders billing"), ("group list", "shop/orders"), ("group show", "shop/orders billing"),
    ("group message", "mail/orders g 1 0"), ("group lag", "shop/orders billing"), ("group seek", "shop/orders billing first"),
    ("dlq list", "mail/dead"), ("dlq reasons", "mail/dead"), ("dlq show", "mail/dead 1 0"),
    ("dlq redrive", "mail/dead --where hs.origin.offset=0"), ("dlq discard", "mail/dead --where hs.origin.offset=1 --yes"),
    ("erase", "mail/dead --where hs.origin.offset=1 --yes"),
    ("top", "--count 1 --interval 100ms"),
    ("group delete", "shop/orders billing --yes"),
    ("user create", "ann --allow all"), ("user list", ""), ("user show", "ann"), ("user update", "ann --inactive"),
    ("user permissions", "ann --allow read_streams"), ("user delete", "ann --yes"),
    ("token create", "nightly"), ("token list", ""), ("token delete", "nightly"), ("client list", ""), ("me", ""), ("ping", ""),
    ("partition delete", "shop/orders --yes"), ("topic purge", "shop/orders --yes"), ("topic delete", "shop/orders --yes"),
    ("stream update", "shop --name store"), ("stream delete", "store --yes"),
]  # fmt: skip
GIVEN = {"import": '{"topic": "shop/orders", "partition": 2, "payload": "eA=="}\n', "user create": "a secret of ann\n"}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with LocalServer() as server:
        leave_letters(server.url)
        yield server.url


def leave_letters(url: str) -> None:
    """Reject four messages, for `dlq`."""
    with hs.connect(url) as log:
        log.create_topic("mail/orders")
        for number in range(4):
            log.send("mail/orders", b"%d" % number)
        with log.consumer("mail/orders", group="g", on_error=hs.Retry(2), dead_letter="mail/dead", timeout_ms=0) as consumer:
            for message in consumer.poll(4):
                consumer.reject(message, reason="unwanted")


@pytest.mark.parametrize("form", ["json", pytest.param("jsonl", marks=pytest.mark.nightly)])
def test_commands_print_the_documented_shapes(form: str, url: str) -> None:
    assert {command for command, _ in HISTORY} == set(DOCUMENT["commands"])
    for command, arguments in HISTORY:
        line = [*command.split(), *arguments.replace("URL", url).split(), "--output", form]
        line += [] if "URL" in arguments else ["--url", url]
        result = CliRunner().invoke(cli, line, input=GIVEN.get(command, ""))
        assert result.exit_code == 0, f"{command}: {result.output}"
        shape, name = DOCUMENT["commands"][command].values()
        found = [json.loads(row) for row in result.stdout.splitlines()] if form == "jsonl" else json.loads(result.stdout)
        assert isinstance(found, list) is (shape == "list" or form == "jsonl"), command
        things = found if isinstance(found, list) else [found]
        assert things, command
        for thing in things:
            jsonschema.validate(thing, {"$ref": f"#/$defs/{name}", "$defs": DOCUMENT["$defs"]})


def test_the_page_names_the_commands_and_shapes_of_the_schemas() -> None:
    page = (ROOT / "docs/cli-output.md").read_text("utf-8")
    for command, printed in DOCUMENT["commands"].items():
        assert f"| `{command}` | {'a list of' if printed['shape'] == 'list' else 'one'} `{printed['of']}` |" in page
