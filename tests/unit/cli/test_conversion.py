"""`headstream convert`: files of messages in other dialects, and the report of what would be lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import headstream as hs
from headstream.cli.main import cli
from headstream.cli.shared.lines import encode_line
from headstream.core.codec.binary import encode_polled, encode_sent
from headstream.core.codec.conversion import read_messages

MESSAGES = [
    hs.Message(payload=b"x", headers=hs.Headers({"n": hs.uint8(n), "big": hs.uint64((1 << 63) + n)}), offset=n, timestamp=5000)
    for n in range(2)
]


def run(*arguments: str, input: bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["convert", *arguments], input=input)


def test_messages_go_from_a_file_to_a_file_and_back(tmp_path: Path) -> None:
    stored, spelled = tmp_path / "stored", tmp_path / "spelled"
    stored.write_bytes(encode_polled(MESSAGES))
    for to in ("json", "binary-wide", "lines"):
        assert run(str(stored), "--to", to, "--out", str(spelled)).exit_code == 0
        result = run(str(spelled), "--to", "binary")
        assert (result.exit_code, result.stdout_bytes) == (0, stored.read_bytes())


def test_a_report_tells_every_loss_before_and_writes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    data = encode_polled(MESSAGES)
    result = run("-", "--to", "kip82", "--report", "--output", "json", "--out", str(out), input=data)
    assert result.exit_code == 0
    assert not out.exists()
    report = json.loads(result.stdout)
    assert [(row["message"], row["part"], row["loss"], row["accepted_by"]) for row in report] == [
        (1, "header 'n'", False, []),
        (1, "header 'big'", True, ["drop", "text"]),
        (2, "header 'n'", False, []),
        (2, "header 'big'", True, ["drop", "text"]),
    ]
    assert report[0]["finding"] == "uint8 becomes int16 without a loss"
    assert "uint64 9223372036854775808" in run("-", "--to", "kip82", "--report", input=data).stdout


def test_a_loss_is_refused_by_its_message_and_accepted_by_a_policy() -> None:
    data = encode_polled(MESSAGES)
    result = run("-", "--to", "kip82", input=data)
    assert result.exit_code == 1
    assert "message 1, header 'big', converting to kip82" in result.stderr
    assert "on_loss='text'" in result.stderr
    result = run("-", "--to", "kip82", "--on-loss", "widen,text", input=data)
    assert result.exit_code == 0
    messages = read_messages(result.stdout_bytes, dialect="kip82")
    assert [message.headers["big"].value for message in messages] == ["9223372036854775808", "9223372036854775809"]


def test_sent_messages_are_recognised_too() -> None:
    result = run("-", "--to", "lines", input=encode_sent([hs.Message(payload=b"hello", key=b"k")]))
    assert json.loads(result.stdout)["payload"] == "aGVsbG8="


@pytest.mark.parametrize(
    ("arguments", "data", "code", "text"),
    [
        (["--to", "json", "--from", "binary"], b"broken", 1, "cut short"),
        (["--to", "json"], b"nothing that is known", 2, "appears to be unknown"),
        (["--to", "json", "--on-loss", "ignore"], b"", 2, "'ignore' is not one of error, drop, widen, text"),
        (["--to", "row"], b"", 2, "row"),
        (["--to", "json", "--from", "lines"], b'{"payload": "?"}', 1, r"not base64.*line 1"),
    ],
)
def test_convert_reports_messages_that_it_cannot_convert(arguments: list[str], data: bytes, code: int, text: str) -> None:
    result = run("-", *arguments, input=data)
    assert result.exit_code == code, result.output
    assert text.split(".*")[0] in result.stderr
    assert text.split(".*")[-1] in result.stderr


def test_lines_are_converted_as_export_writes_them() -> None:
    lines = "".join(f"{encode_line(message)}\n" for message in MESSAGES).encode()
    result = run("-", "--from", "lines", "--to", "binary", input=lines)
    assert result.stdout_bytes == encode_polled(MESSAGES)
    assert run("-", "--from", "lines", "--to", "lines", input=lines).stdout_bytes == lines
