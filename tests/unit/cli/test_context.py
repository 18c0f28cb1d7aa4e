"""`headstream context`: named servers and logs, secrets that nobody else reads, and what commands take from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import headstream as hs
from headstream.cli.main import COMMANDS, cli


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("URL", "CONTEXT", "USERNAME", "PASSWORD", "TOKEN"):
        monkeypatch.delenv(f"HEADSTREAM_{name}", raising=False)


def invoke(*arguments: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin)


def run(*arguments: str, stdin: str = "") -> Any:
    result = invoke(*arguments, "--output", "json", stdin=stdin)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_a_context_stands_in_for_the_url(tmp_path: Path) -> None:
    assert invoke("topic", "list").exit_code == 2
    one, two = (tmp_path / "one").as_uri(), (tmp_path / "two").as_uri()
    for url, name in ((one, "a/one"), (two, "a/two")):
        with hs.connect(url) as log:
            log.create_topic(name)
    run("context", "create", "first", one)
    run("context", "create", "second", two)
    assert [topic["name"] for topic in run("topic", "list")] == ["a/one"]  # the first is in use
    assert run("context", "use", "second")["in_use"]
    assert [topic["name"] for topic in run("topic", "list")] == ["a/two"]
    assert [topic["name"] for topic in run("topic", "list", "--url", one)] == ["a/one"]
    run("context", "update", "second", one)
    assert [topic["name"] for topic in run("topic", "list")] == ["a/one"]
    run("context", "delete", "second")
    assert invoke("topic", "list").exit_code == 2


def test_the_environment_names_another_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("context", "create", "first", tmp_path.as_uri())
    monkeypatch.setenv("HEADSTREAM_CONTEXT", "missing")
    result = invoke("topic", "list")
    assert result.exit_code == 1
    assert "there is no context 'missing'" in result.output


@pytest.mark.parametrize("command", ["ping", "me", "stats", "user list", "token list", "client list"])
def test_commands_that_need_a_server_say_so(command: str, tmp_path: Path) -> None:
    result = invoke(*command.split(), "--url", tmp_path.as_uri())
    assert result.exit_code == 2
    assert "this log is embedded and has no server" in result.output


@pytest.mark.parametrize("name", ["user", "token", "client", "context", "ping", "me", "stats", "snapshot", "completion"])
def test_help_has_an_example(name: str) -> None:
    assert name in COMMANDS
    assert "Example" in invoke(name, "--help").output
