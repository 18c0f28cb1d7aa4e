from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from headstream.cli import main
from headstream.cli.main import COMMANDS, cli
from headstream.errors import InvalidOptionError, StorageError

HEAVY = ("pyspark", "pyarrow", "pandas", "deltalake", "rich", "headstream.spark", "headstream.testing")


def invoke(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(cli, arguments, env={"HEADSTREAM_URL": None, "XDG_CONFIG_HOME": "/nonexistent", **variables})


def commands(group: click.Group, *path: str) -> list[tuple[str, ...]]:
    context = click.Context(group)
    found: list[tuple[str, ...]] = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += commands(command, *path, name) if isinstance(command, click.Group) else [(*path, name)]
    return found


VERBS = {
    "stream": "list show create update delete",
    "topic": "list show create update delete purge",
    "dlq": "list reasons show redrive discard",
    "partition": "list show create delete states set-state",
    "group": "list show message create lag seek delete",
    "user": "list show create update permissions password delete",
    "token": "list show create delete",
    "client": "list show",
    "context": "list show create update use delete",
    "replicate": "run compare inspect parked redrive reload remove-deletion-vectors schemas status",
}
ICEBERG = ("replicate", "iceberg", "check")
ALL: list[tuple[str, ...]] = [(name,) for name in COMMANDS if name not in VERBS]
ALL += [*((noun, verb) for noun in VERBS for verb in VERBS[noun].split()), ICEBERG]


OF_A_CHECKPOINT = [*(("replicate", name) for name in VERBS["replicate"].split() if name != "run"), ICEBERG]
"""What looks at a pipeline's own files, or at none of a log."""

OF_NO_LOG = ("demo", "server", "console", "jars", "inspect", "convert", "context", "completion", "mirror")
"""Or of two: mirror has both as arguments."""


def test_every_command_is_there() -> None:
    assert sorted(commands(cli)) == sorted(ALL)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_explains_itself_by_an_example(path: tuple[str, ...]) -> None:
    shown = invoke(*path, "--help")
    assert shown.exit_code == 0
    assert "Example" in shown.output
    assert f"headstream {' '.join(path)}" in shown.output.split("Example")[1]


@pytest.mark.parametrize("path", [path for path in ALL if path[0] not in OF_NO_LOG and path not in OF_A_CHECKPOINT], ids=" ".join)
def test_every_command_that_connects_takes_url_and_output(path: tuple[str, ...]) -> None:
    shown = invoke(*path, "--help").output
    assert "--url" in shown
    assert "--output" in shown


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["stream", "--help"], ["replicate", "run", "--help"], ["send"]])
def test_the_program_loads_no_more_than_it_needs(arguments: list[str]) -> None:
    program = (
        "import sys; from headstream.cli.main import cli\n"
        f"try: cli.main({arguments!r}, standalone_mode=False)\n"
        "except Exception: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_version_says_how_the_kernels_run() -> None:
    shown = invoke("--version").output
    assert shown.startswith("headstream ")
    assert "kernels compiled" in shown or "kernels interpreted" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["topic", "nonsense"],
        ["topic", "list"],
        ["topic", "list", "--url", ""],
        ["topic", "list", "--url", "shop"],
        ["topic", "list", "--url", "nonsense://host"],
        ["topic", "list", "--url", "memory://", "--output", "xml"],
        ["topic", "create", "orders", "--url", "memory://"],
        ["topic", "create", "shop/orders", "--partitions", "0", "--url", "memory://"],
        ["topic", "create", "shop/orders", "--limits", "none", "--url", "memory://"],
        ["stream", "create", "a.b", "--url", "memory://"],
        ["send", "shop/orders", "x", "--header", "a=int:1", "--url", "memory://"],
        ["send", "shop/orders", "x", "--header", "a", "--url", "memory://"],
        ["send", "shop/orders", "x", "--null", "--url", "memory://"],
        ["send", "shop/orders", "x", "--lines", "--url", "memory://"],
        ["send", "shop/orders", "x", "--id", "-1", "--url", "memory://"],
        ["poll", "shop/orders", "--offset", "middle", "--url", "memory://"],
        ["poll", "shop/orders", "--states", "fine", "--url", "memory://"],
        ["poll", "shop/orders", "--count", "0", "--url", "memory://"],
        ["tail", "shop/orders", "--from", "next", "--url", "memory://"],
        ["import", "no-such-file", "--url", "memory://"],
        ["replicate", "run", "--source", "memory://"],
        ["replicate", "inspect"],
        ["replicate", "inspect", "no-such-file"],
    ],
    ids=" ".join,
)
def test_a_command_ends_with_2_when_its_arguments_are_wrong(arguments: list[str]) -> None:
    ran = invoke(*arguments)
    assert ran.exit_code == 2, ran.output
    assert ran.stdout == "" or not arguments
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["stream", "show", "shop"],
        ["stream", "delete", "shop", "--yes"],
        ["topic", "show", "shop/orders"],
        ["topic", "delete", "shop/orders", "--yes"],
        ["send", "shop/orders", "x"],
        ["poll", "shop/orders"],
        ["tail", "shop/orders"],
        ["export", "shop/orders"],
    ],
    ids=" ".join,
)
def test_failure_ends_with_1_and_one_text(arguments: list[str]) -> None:
    ran = invoke(*arguments, HEADSTREAM_URL="memory://")
    assert ran.exit_code == 1
    assert ran.stdout == ""
    assert ran.stderr.startswith("Error: there is no ")


@pytest.mark.parametrize("noun", ["stream", "topic"])
def test_an_empty_list_says_that_there_is_no_log_where_it_was_looked_for(tmp_path: Path, noun: str) -> None:
    url = (tmp_path / "log").as_uri()
    ran = invoke(noun, "list", "--output", "json", HEADSTREAM_URL=url)
    assert (ran.exit_code, json.loads(ran.stdout)) == (0, [])
    assert "no log at this URL" in ran.stderr
    assert invoke("stream", "create", "shop", HEADSTREAM_URL=url).exit_code == 0
    assert invoke(noun, "list", HEADSTREAM_URL=url).stderr == ""


def _raise(error: BaseException) -> Result:
    @click.command("broken")
    def broken() -> None:
        raise error

    group = main.LazyGroup("headstream")
    group.get_command = lambda ctx, cmd_name: broken  # type: ignore[method-assign]
    return CliRunner().invoke(group, ["broken"])


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (StorageError("no room", where="/data", advice="Make some"), 1, "Error: no room (/data). Make some\n"),
        (InvalidOptionError("no such wait"), 2, "Error: no such wait\n"),
        (FileNotFoundError(2, "No such file", "x.json"), 1, "Error: No such file: x.json\n"),
        (OSError("nothing more is known"), 1, "Error: nothing more is known\n"),
        (ModuleNotFoundError("No module named 'pyspark'", name="pyspark.sql"), 1, "pip install 'headstream[spark]'\n"),
    ],
)
def test_errors_become_a_text_and_an_exit_code(error: Exception, code: int, text: str) -> None:
    ran = _raise(error)
    assert ran.exit_code == code
    assert ran.stderr.endswith(text)
    assert ran.stderr.count("\n") == 1


@pytest.mark.parametrize("error", [ModuleNotFoundError("No module named 'nonsense'", name="nonsense"), ZeroDivisionError("bug")])
def test_an_error_that_is_none_of_headstreams_reaches_the_caller_as_it_is(error: Exception) -> None:
    assert _raise(error).exception is error


def test_commands_name_modules_and_functions_that_are_there() -> None:
    for entry in COMMANDS.values():
        assert callable(getattr(importlib.import_module(f"headstream.cli.{entry.module}"), entry.function))


def test_json_forms_of_streams_and_topics(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/log"
    made = json.loads(
        invoke("topic", "create", "shop/orders", "--partitions", "2", "--output", "json", HEADSTREAM_URL=url).stdout
    )
    assert made.pop("created_us") > 1_600_000_000_000_000
    assert made == {
        "name": "shop/orders",
        "id": 1,
        "limits": "iggy",
        "fsync": "interval",
        "retention_us": None,
        "retention_bytes": None,
        "compaction_delay_us": None,
        "deduplication_count": None,
        "summary_headers": None,
        "deletion_grace_us": 7 * 86_400_000_000,
        "legal_hold": False,
        "kafka_headers": "headstream",
        "messages": 0,
        "size_bytes": 0,
        "partitions": [{"partition": n, "first_offset": 0, "end_offset": 0, "messages": 0, "size_bytes": 0} for n in (1, 2)],
    }
    (stream,) = json.loads(invoke("stream", "list", "--output", "json", HEADSTREAM_URL=url).stdout)
    assert stream.pop("created_us") > 1_600_000_000_000_000
    assert stream == {"name": "shop", "id": 1, "topics": ["orders"]}
