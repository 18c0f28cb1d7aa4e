"""The table of commands: each command has a row, and the columns agree with each other and with the commands."""

from __future__ import annotations

from headstream.broker.commands.requests import READS, WAITS
from headstream.broker.commands.table import ROWS, codes_where
from headstream.core.wire.codes import Code
from headstream.core.wire.command_classes import COMMANDS
from headstream.core.wire.fields import fields_of


def test_rows_answer_every_command_of_the_protocol_once() -> None:
    assert {command.code: command for command in ROWS} == COMMANDS


def test_rows_on_threads_of_their_own_are_slow_and_no_row_is_slow_and_quick() -> None:
    slow, quick = codes_where(lambda row: row.is_slow), codes_where(lambda row: row.is_quick)
    assert slow >= codes_where(lambda row: row.threads != "work")
    assert not slow & quick
    assert codes_where(lambda row: row.threads == "passwords") == {Code.LOGIN, Code.CREATE_USER, Code.CHANGE_PASSWORD}


def test_rows_that_read_append_or_wait_are_those_whose_commands_have_what_that_needs() -> None:
    fields = {command.code: {field.name for field in fields_of(command)} for command in ROWS}
    assert set(WAITS) == {code for code, names in fields.items() if "timeout_ms" in names} == {10_000, 10_001}
    assert {Code.POLL_MESSAGES, Code.FETCH_MESSAGES, Code.FILTER_MESSAGES} == READS
    appends = codes_where(lambda row: row.is_append)
    assert appends == {code for code, names in fields.items() if "messages" in names} - {Code.STAGE_BATCH}
