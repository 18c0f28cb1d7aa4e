"""Unit tests of headstream.cli.completion."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import headstream as hs
from headstream.cli.main import cli
from tests.unit.cli.test_context import home, invoke

__all__ = ["home"]  # fixtures


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
