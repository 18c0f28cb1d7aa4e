"""Lines of the server's log: no name that a client chooses makes a line of its own, or speaks to a terminal."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from headstream.server.answers import Answers
from headstream.server.logs import LogForm, start_logging
from headstream.wire.codes import Code
from headstream.wire.commands.sessions import Login
from tests.servers import Server

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
    logging.getLogger("headstream.log").error("a staged commit is refused: writer %s", EVIL)
    (line,) = capsys.readouterr().err.removesuffix("\n").split("\n")
    assert not [character for character in line if character < " " or "\x7f" <= character <= "\x9f" or character == "\u2028"]
    assert "eve\\r\\n\\u001b[2J\\u007f\\u009b31m\\u2028fake" in line


def test_refused_login_is_logged_with_the_name_that_was_tried_escaped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = Server()
    start_logging("info", "json")
    answers = Answers(server.dispatcher, server.connect().session)
    status, _ = answers.find(Code.LOGIN, memoryview(Login(EVIL, "wrong").encode()))
    assert status == 42
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["name"] == EVIL
    server.broker.close()
    assert "\x1b" not in line
