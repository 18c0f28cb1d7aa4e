"""Unit tests of headstream.cli.transfer."""

from __future__ import annotations

from tests.support.cli_inputs import invoke
from tests.unit.cli.test_messages import url

__all__ = ["url"]  # fixtures


def test_poll_and_export_end_before_until(url: str) -> None:
    assert len(invoke("poll", "shop/orders", "--until", "2", "--output", "jsonl", url=url).output.splitlines()) == 4
    assert len(invoke("export", "shop/orders", "--until", "1", url=url).output.splitlines()) == 2
    assert invoke("export", "shop/orders", "--until", "-1h", url=url).output == ""
    assert len(invoke("export", "shop/orders", "--from", "-1h", url=url).output.splitlines()) == 6
    assert "--until excludes" in invoke("poll", "shop/orders", "--last", "2", "--until", "5", url=url, code=2).output


def test_import_of_standard_input_names_it_when_a_line_is_bad(url: str) -> None:
    refused = invoke("import", "-", "--topic", "shop/orders", url=url, code=1, given='{"payload": "YQ=="}\nnonsense\n')
    assert "line 2 is bad" in refused.output
    assert "(standard input)" in refused.output
    assert "goes on from there" not in refused.output
