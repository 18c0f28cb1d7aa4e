"""Unit tests of headstream.cli.shared.secrets."""

from __future__ import annotations

import pytest

from tests.unit.cli.test_completion import complete
from tests.unit.cli.test_context import home, invoke

__all__ = ["home"]  # fixtures


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
