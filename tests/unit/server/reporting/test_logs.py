"""Lines of the server's log: no name that a client chooses makes a line of its own, or speaks to a terminal."""

from __future__ import annotations

import io
import json
import logging
import re
import zipfile
from collections.abc import Iterator

import pytest

from headstream.broker.commands.snapshot import make_archive
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.sessions import Login
from headstream.core.wire.commands.system import SnapshotCompression, SnapshotType
from headstream.log.opening import open_memory
from headstream.server.iggy.requests.responder import Responder
from headstream.server.reporting.logs import LogForm, note, start_logging
from tests.support.server.http_servers import serving
from tests.support.server.servers import Server

EVIL = "eve\r\n\x1b[2J\x7f\x9b31m\u2028fake"


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("headstream")
    before = logger.handlers[:], logger.level, logger.propagate
    yield logger
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.mark.parametrize("form", ["text", "json"])
def test_line_has_no_control_character_when_a_name_has_some(
    capsys: pytest.CaptureFixture[str], logger: logging.Logger, form: LogForm
) -> None:
    start_logging("info", form)
    logging.getLogger("headstream.log").error("a staged commit was refused: writer %s", EVIL)
    (line,) = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert not [character for character in line if character < " " or "\x7f" <= character <= "\x9f" or character == "\u2028"]
    assert "eve\\r\\n\\u001b[2J\\u007f\\u009b31m\\u2028fake" in line


def test_refused_login_is_logged_with_the_name_that_was_tried_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    server = Server()
    start_logging("info", "json")
    answers = Responder(server.dispatcher, server.connect().session)
    status, _ = answers.find(Code.LOGIN, memoryview(Login(EVIL, "wrong").encode()))
    assert status == 42
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["name"] == EVIL
    server.broker.close()
    assert "\x1b" not in line


def test_archive_has_lines_as_existing_tools_look_for_them_when_something_was_logged() -> None:
    start_logging("info", "json")  # whatever the form of standard error is
    note(logging.INFO, "ready", path="a\nb\x1b[2J")
    log = open_memory()
    archive = make_archive(log, SnapshotCompression.DEFLATED, (SnapshotType.SERVER_LOGS,))
    log.close()
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        line = opened.read("server_logs.txt").decode().splitlines()[-1]
    assert re.fullmatch(r'\S+Z  INFO ThreadId\(\d{2,}\) headstream\.server: ready path="a\\nb\\u001b\[2J"', line), line


def test_refused_logins_over_http_are_logged_with_the_name_that_was_tried_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging("warning", "json")
    with serving() as http:
        assert http.call("POST", "/users/login", {"username": EVIL, "password": "wrong"}, token=None).refusal == (400, 42)
        http.call("POST", "/personal-access-tokens/login", {"token": "x" * 68}, token=None)
    written = capsys.readouterr().err
    assert "\x1b" not in written
    lines = [json.loads(line) for line in written.splitlines()]
    assert [(line["event"], line["name"]) for line in lines] == [("login refused", EVIL), ("login refused", None)]
    assert (lines[0]["status"], lines[0]["address"].partition(":")[0]) == (42, "127.0.0.1")
