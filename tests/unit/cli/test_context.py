"""`headstream context`: named servers and logs, secrets that nobody else reads, and what commands take from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import headstream as hs
from headstream.cli.main import COMMANDS, cli
from headstream.cli.shared.contexts import Context, Contexts, contexts_path


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


def test_secrets_are_kept_where_nobody_else_reads_and_never_shown() -> None:
    run("context", "create", "kept", "headstream://ann:s%2Fcret@mq:1?tls=true")
    run("context", "create", "read", "headstream://bob@mq:2", "--keep-secret", stdin="t0psecret\n")
    run("context", "create", "asked", "http://eve@mq:3")
    run("context", "create", "token", "headstream://:tok/+@mq:4")
    path = contexts_path()
    assert path.stat().st_mode & 0o777 == 0o600
    shown = invoke("context", "list").output + invoke("context", "show", "kept", "--output", "json").output
    for secret in ("s/cret", "s%2Fcret", "t0psecret", "tok/", "tok%2F"):
        assert secret not in shown
    assert [row["secret"] for row in run("context", "list")] == ["asked for", "kept", "kept", "kept"]
    contexts = Contexts(path)
    assert contexts.get("kept").to_url() == "headstream://ann:s%2Fcret@mq:1?tls=true"
    assert contexts.get("read").to_url() == "headstream://bob:t0psecret@mq:2"
    assert contexts.get("asked").to_url() == "http://eve@mq:3"
    assert contexts.get("token").to_url() == "headstream://:tok%2F%2B@mq:4"
    assert "cret" not in repr(contexts.get("kept"))


def test_what_cannot_be_a_context_is_refused() -> None:
    run("context", "create", "a", "file:///tmp/x")
    for arguments, text in (
        (("create", "a", "file:///tmp/y"), "the context 'a' exists already"),
        (("use", "b"), "there is no context 'b'"),
        (("update", "b", "file:///tmp/y"), "there is no context 'b'"),
        (("create", "b", "nothing"), "this is not a URL"),
    ):
        result = invoke("context", *arguments)
        assert result.exit_code in (1, 2)
        assert text in result.output
    contexts_path().write_text("[1]")
    assert "this is not a file of contexts" in invoke("context", "list").output


@pytest.mark.parametrize("url", ["headstream://a:b@h:1?tls=true", "http://a@h", "headstream://:t@h", "file:///x", "memory://n"])
def test_a_url_comes_back_as_it_was(url: str) -> None:
    assert Context.of_url(url).to_url() == url


@pytest.mark.parametrize("command", ["ping", "me", "stats", "user list", "token list", "client list"])
def test_commands_that_need_a_server_say_so(command: str, tmp_path: Path) -> None:
    result = invoke(*command.split(), "--url", tmp_path.as_uri())
    assert result.exit_code == 2
    assert "this log is embedded and has no server" in result.output


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_is_a_script_for_the_shell(shell: str) -> None:
    assert "_HEADSTREAM_COMPLETE" in invoke("completion", shell).output


def complete(words: str, monkeypatch: pytest.MonkeyPatch, **environment: str) -> list[str]:
    """Return what a shell is told for a line whose last word is being typed."""
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    asked = {"_HEADSTREAM_COMPLETE": "bash_complete"} | environment
    result = CliRunner().invoke(cli, [], prog_name="headstream", env=asked, complete_var="_HEADSTREAM_COMPLETE")
    return [line.removeprefix("plain,") for line in result.output.splitlines() if line]


def test_names_are_completed_from_the_log_and_the_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = (tmp_path / "log").as_uri()
    with hs.connect(url) as log:
        log.create_topic("shop/orders")
        log.create_topic("web/clicks")
        log.seek_group("shop/orders", "billing", "first")
    assert complete("headstream topic show sh", monkeypatch) == []
    assert complete("headstream topic show sh", monkeypatch, HEADSTREAM_URL=url) == ["shop/orders"]
    assert complete("headstream stream show ", monkeypatch, HEADSTREAM_URL=url) == ["shop", "web"]
    assert complete("headstream group lag shop/orders b", monkeypatch, HEADSTREAM_URL=url) == ["billing"]
    invoke("context", "create", "prod", url)
    assert complete("headstream context use p", monkeypatch) == ["prod"]


def record_questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pretend that there is a terminal, where each password is `secret`, and return the list of what is asked for."""
    asked: list[str] = []

    def answer(what: str, **_: bool) -> str:
        asked.append(what)
        return "secret"

    monkeypatch.setattr("headstream.cli.shared.secrets.read_secret", answer)
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    return asked


@pytest.mark.parametrize(
    "arguments",
    [
        "send shop/orders hello --header a=uint9:3",
        "send shop/orders hello --key-delimiter ,",
        "poll shop/orders --offset yesterday",
        "topic create orders",
        "topic create shop/orders --retention 9q",
        "user create",
        "user create bob --allow fly",
        "user create bob --allow shop=poll_messages,fly",
        "user create bob --allow =poll_messages",
        "user permissions bob --allow shop/orders=manage_topics",
        "user update bob",
        "import missing.jsonl",
    ],
)
def test_a_password_is_asked_for_after_everything_else_on_the_command_line_was_checked(
    arguments: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = record_questions(monkeypatch)
    command, *rest = arguments.split()
    group = [command, rest.pop(0)] if command in ("topic", "user") else [command]
    result = invoke(*group, "--url", "headstream://ann@127.0.0.1:1", *rest)
    assert (result.exit_code, asked) == (2, []), result.output
    result = invoke("topic", "list", "--url", "headstream://ann@127.0.0.1:1")
    assert (result.exit_code, asked) == (1, ["Password of ann"]), result.output


def test_mirror_asks_for_the_password_of_a_context(monkeypatch: pytest.MonkeyPatch) -> None:
    invoke("context", "create", "prod", "headstream://ann@127.0.0.1:1")
    asked = record_questions(monkeypatch)
    result = invoke("mirror", "prod", "memory://", "--once")
    assert (result.exit_code, asked) == (1, ["Password of ann"]), result.output


def test_completion_asks_for_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    invoke("context", "create", "prod", "headstream://ann@127.0.0.1:1")
    monkeypatch.setattr("headstream.cli.shared.secrets.read_secret", lambda *_, **__: pytest.fail("asked"))
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    assert complete("headstream topic show sh", monkeypatch) == []


@pytest.mark.parametrize("name", ["user", "token", "client", "context", "ping", "me", "stats", "snapshot", "completion"])
def test_help_has_an_example(name: str) -> None:
    assert name in COMMANDS
    assert "Example" in invoke(name, "--help").output
