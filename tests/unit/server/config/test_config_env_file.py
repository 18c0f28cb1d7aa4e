"""Files of variables: which lines are taken, what stands for what, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstream.errors import InvalidOptionError, StorageError
from headstream.server.config.config import read_env_file


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=b", "b"),
        ("  export A = b c  ", "b c"),
        ("A=", ""),
        ("A= # nothing", ""),
        ("A=b # said", "b"),
        ("A=b#c", "b#c"),
        ("A=5 s\r", "5 s"),
        ("A='$B \\n # \"'", '$B \\n # "'),
        ('A="two\nlines" # said', "two\nlines"),
        ('A="\\"b\\" \\\\ \\$B \\n \\x"', '"b" \\ $B \n \\x'),
        ("A=$B/${C}/$NONE.", "outside/above/."),
        ("A=1\nA=2", "2"),
        ('A=["a", b]', '["a", b]'),
    ],
)
def test_env_file_reads_lines_as_a_shell_does(tmp_path: Path, line: str, value: str) -> None:
    path = tmp_path / ".env"
    path.write_bytes(b"\xef\xbb\xbf# \xc3\xbc\nB=inside\nC=above\n" + line.encode())
    assert read_env_file(path, {"B": "outside"})["A"] == value


@pytest.mark.parametrize("line", ["what is this?", 'OTHER="no end', "A-B=1", "=1", "IGGY=no name of a setting"])
def test_env_file_passes_over_what_is_for_other_programs(tmp_path: Path, line: str) -> None:
    path = tmp_path / ".env"
    path.write_text(f"{line}\nIGGY_TCP_ADDRESS=127.0.0.1:1")
    assert read_env_file(path, {})["IGGY_TCP_ADDRESS"] == "127.0.0.1:1"


@pytest.mark.parametrize("line", ["IGGY_ROOT_PASSWORD='secret", "export HEADSTREAM_X", 'IGGY_A="secret"secret', "IGGY_A: secret"])
def test_env_file_tells_which_of_our_lines_it_cannot_read_and_not_what_it_says(tmp_path: Path, line: str) -> None:
    path = tmp_path / ".env"
    path.write_text(f"A=1\n\n{line}\n")
    with pytest.raises(InvalidOptionError, match="line 3 must be NAME=VALUE") as refused:
        read_env_file(path, {})
    assert str(path) in str(refused.value)
    assert "secret" not in str(refused.value)


def test_env_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file"):
        read_env_file(tmp_path / "missing", {})
    (tmp_path / "bytes").write_bytes(b"A=\xff")
    with pytest.raises(InvalidOptionError, match="UTF-8"):
        read_env_file(tmp_path / "bytes", {})
