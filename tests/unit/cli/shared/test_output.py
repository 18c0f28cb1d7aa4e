from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from rich.cells import cell_len

from headstream.cli.shared.output import escape, format_time, print_object, print_objects, write_json_list

ROWS = [{"name": "shop", "id": 1, "topics": ["a", "b"]}, {"name": "[red]zoo", "id": 12, "topics": []}]


def test_print_objects_prints_an_aligned_table(capsys: pytest.CaptureFixture[str]) -> None:
    print_objects(ROWS, ("name", "id", "topics"), "table")
    assert capsys.readouterr().out.splitlines() == ["name      id  topics", "shop       1  a, b", "[red]zoo  12  -"]


def test_print_objects_prints_one_list_or_an_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_objects(ROWS, ("name",), "json")
    assert json.loads(capsys.readouterr().out) == ROWS
    print_objects(ROWS, ("name",), "jsonl")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == ROWS
    print_objects([], ("name",), "json")
    assert json.loads(capsys.readouterr().out) == []


def test_print_object_prints_members(capsys: pytest.CaptureFixture[str]) -> None:
    print_object({"sent": 1, "key": None, "whole": True}, "table")
    assert capsys.readouterr().out.splitlines() == ["sent   1", "key    -", "whole  yes"]
    print_object({"sent": 1}, "json")
    assert json.loads(capsys.readouterr().out) == {"sent": 1}


def test_a_cell_that_no_terminal_is_wide_enough_for_is_not_folded(capsys: pytest.CaptureFixture[str]) -> None:
    print_objects([{"name": "x" * 500, "id": 1}], ("name", "id"), "table")
    assert capsys.readouterr().out.splitlines()[1] == "x" * 500 + "   1"


@pytest.mark.parametrize("width", [30, 40, 50, 60, 80, 120, 200])
def test_a_table_fits_any_terminal_and_loses_no_character(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "dumb")
    columns = ("name", "id", "partitions", "created", "address")
    place = "a place with a name that is long, and 日本"
    rows = [{"name": "shop/orders", "id": 4294967295, "partitions": 3, "created": format_time(0), "address": place} for _ in "ab"]
    print_objects(rows, columns, "table")
    print_object(rows[0], "table")
    shown = capsys.readouterr().out
    assert all(cell_len(line) <= width for line in shown.splitlines())
    wanted = Counter("".join(str(value) for row in (*rows, rows[0]) for value in row.values()))
    del wanted[" "]
    assert Counter(shown) >= wanted
    assert ("─" in shown) is (width >= 80)


def test_write_json_list_closes_the_list_when_ctrl_c_ends_it(capsys: pytest.CaptureFixture[str]) -> None:
    def documents() -> Iterator[int]:
        yield 1
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_json_list(documents())
    assert json.loads(capsys.readouterr().out) == [1]


def test_escape_leaves_nothing_that_moves_or_colours_a_terminal() -> None:
    assert escape("a\x1b[2J\u202e\nb") == "a\\x1b[2J\\u202e\\nb"
    assert escape("grün \\n") == "grün \\n"


@pytest.mark.parametrize(
    ("time_us", "shown"),
    [(0, "1970-01-01T00:00:00.000000Z"), (1690000000000001, "2023-07-22T04:26:40.000001Z"), ((1 << 64) - 1, str((1 << 64) - 1))],
)
def test_format_time_is_iso_8601_in_utc(time_us: int, shown: str) -> None:
    assert format_time(time_us) == shown
