"""`headstream top` on a directory, a server and a terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import headstream as hs
from headstream.cli.main import cli
from headstream.replicate.parked.ledger import Ledger
from headstream.testing import LocalServer

PATIENCE_S = 60.0


@pytest.fixture(params=["file", "tcp", "http"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "file":
        yield (tmp_path / "log").as_uri()
        return
    with LocalServer(tmp_path / "log") as server:
        yield server.url if request.param == "tcp" else server.http_url


def fill(log: hs.Client) -> None:
    log.create_topic("shop/orders", partitions=2)
    log.create_topic("shop/idle")
    log.seek_group("shop/orders", "billing", "first")
    log.seek_group("shop/idle", "audit", "first")
    for number in range(10):
        log.send("shop/orders", b"x" * 100, partition=1 + number % 2)


def top(url: str, *options: str) -> str:
    result = CliRunner().invoke(cli, ["top", "--url", url, "--interval", "100ms", *options])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_counts_and_lags_are_those_of_the_log(url: str) -> None:
    with hs.connect(url) as log:
        fill(log)
        [overview] = json.loads(top(url, "--count", "1", "--output", "json"))
        assert {found["topic"]: (found["messages"], found["partitions"]) for found in overview["topics"]} == {
            "shop/orders": (10, 2),
            "shop/idle": (0, 1),
        }
        assert [(found["group"], found["lag"]) for found in overview["groups"]] == [("billing", 10), ("audit", 0)]
        assert bool(overview["server"]) is not url.startswith("file")
        assert "iggy:iggy" not in overview["log"]


def test_only_groups_of_the_named_topics_are_read(url: str) -> None:
    with hs.connect(url) as log:
        fill(log)
        [overview] = json.loads(top(url, "--count", "1", "--output", "json", "--topic", "shop/idle"))
    assert [found["group"] for found in overview["groups"]] == ["audit"]


def test_a_table_is_printed_for_each_interval_when_there_is_no_terminal(url: str) -> None:
    with hs.connect(url) as log:
        fill(log)
        text = top(url, "--count", "3", "--sort", "name")
    assert text.count("Topics by name") == 3
    assert "\x1b" not in text


def test_pipelines_are_read_from_their_checkpoints(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    Ledger(checkpoint / "ledger.sqlite").close()
    options = ("--count", "1", "--output", "json", "--pipeline", str(checkpoint))
    [overview] = json.loads(top((tmp_path / "log").as_uri(), *options))
    status = overview["pipelines"][str(checkpoint)]
    assert (status["state"], status["waiting"]) == ("has not run", 0)


def test_an_interval_that_is_too_short_is_rejected(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["top", "--url", tmp_path.as_uri(), "--interval", "1ms"])
    assert result.exit_code == 2
    assert "Use 100ms or more" in result.output


@pytest.mark.parametrize("end", ["q", "ctrl-c"])
def test_terminal_shows_the_log_until_it_is_ended(tmp_path: Path, end: str) -> None:
    url = (tmp_path / "log").as_uri()
    with hs.connect(url) as log:
        fill(log)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "headstream.cli", "top", "--url", url, "--interval", "100ms"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    try:
        read_until(ours, b"Topics by rate")
        os.write(ours, b"s")
        read_until(ours, b"Topics by size")
        if end == "q":
            os.write(ours, b"q")
        else:
            process.send_signal(signal.SIGINT)
        rest = read_until(ours, None)
        assert process.wait(PATIENCE_S) == 0
        assert b"Traceback" not in rest
        assert b"\x1b[?1049l" in rest  # the screen before is shown again
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(terminal: int, text: bytes | None) -> bytes:
    """Read a terminal until a text comes, or until its program has ended."""
    found, until_s = b"", time.monotonic() + PATIENCE_S
    while text is None or text not in found:
        assert time.monotonic() < until_s, found[-2000:]
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # its last writer has gone
            piece = b""
        if not piece:
            assert text is None, found[-2000:]
            return found
        found += piece
    return found
