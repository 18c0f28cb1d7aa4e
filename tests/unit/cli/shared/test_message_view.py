"""Unit tests of headstream.cli.shared.message_view."""

from __future__ import annotations

import pytest

from headstream.cli.shared.message_view import MessageForm, describe_bytes, print_message_lines, print_message_table
from headstream.core.model.message import MessageState, ReceivedMessage
from tests.support.cli_inputs import ALL_KINDS


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (None, "(null)"),
        (b"", "(empty)"),
        ("grün".encode(), "grün"),
        (b'{\n\t"a": 1\r\n}', '{\\n\\t"a": 1\\r\\n}'),
        (b"\xff\x00", "base64:/wA="),
        (b"\x1b[31mred", "base64:G1szMW1yZWQ="),
        ("\u202eevil".encode(), "base64:4oCuZXZpbA=="),
        (b"a" * 300, "a" * 200 + "… (300 bytes)"),
    ],
)
def test_describe_bytes_shows_printable_text_else_base64(data: bytes | None, shown: str) -> None:
    assert describe_bytes(data) == shown


def test_messages_are_one_line_each_whatever_is_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    message = ReceivedMessage(
        payload=b"a\nb", headers=ALL_KINDS, key=b"\n", offset=3, timestamp=0, partition=1, state=MessageState.POISONED
    )
    print_message_lines([message], MessageForm("table"))
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("1:3  1970-01-01T00:00:00.000000Z  poisoned  key \\n  raw=raw:AP8= string=string:grün")
    assert line.endswith("  a\\nb")
    assert line.isprintable()
    print_message_table([message], MessageForm("table"))
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["partition", "offset", "time", "state", "key", "headers", "payload"]
    assert "poisoned" in row


def test_state_is_a_column_only_where_a_message_is_not_available(capsys: pytest.CaptureFixture[str]) -> None:
    print_message_table([ReceivedMessage(payload=b"a", offset=0, timestamp=0, partition=1)], MessageForm("table"))
    assert "state" not in capsys.readouterr().out


@pytest.mark.parametrize(("width", "is_table"), [(60, False), (80, True)])
def test_a_terminal_that_is_too_narrow_for_a_table_of_messages_shows_lines(
    width: int, is_table: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    payload = b"payload " * 20
    print_message_table(
        [ReceivedMessage(payload=payload, headers=ALL_KINDS, offset=1, timestamp=0, partition=1)], MessageForm("table")
    )
    shown = capsys.readouterr().out
    assert shown.startswith("partition") is is_table
    assert shown.count("payload") >= 20
    assert max(map(len, shown.splitlines())) <= 80 or not is_table
