"""The program `headstream`: handles errors, and imports each command when it is called.

    exit code   0 success; 1 failure (a message on standard error, no traceback), or a check that found a fault; 2 misuse
                130 ended by Ctrl-C, except where Ctrl-C is the normal end, as in tail, top, or replicate run without --once

If the reader of standard output closes the pipe, as `head` does, a command ends silently with exit code 0.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from typing import Any, Final, NamedTuple

import click

from headstream.cli.shared.output import OutputClosedError
from headstream.errors import HeadstreamError, InvalidOptionError, InvalidUrlError, MissingExtraError


class LazyCommand(NamedTuple):
    """The module and function of a command, and its line in --help."""

    module: str
    function: str
    line: str


COMMANDS: Final = {
    "demo": LazyCommand("demo", "demo", "Demonstrate the complete pipeline, or with --log only the log."),
    "server": LazyCommand("server", "server", "Serve a log to Headstream, Iggy and Kafka clients, and over HTTP."),
    "console": LazyCommand("console", "console", "Show a log in the browser: topics, messages, groups."),
    "stream": LazyCommand("streams", "stream", "Streams: list, show, create, update, delete."),
    "topic": LazyCommand("topics", "topic", "Topics: list, show, create, update, delete, purge."),
    "dlq": LazyCommand("dlq", "dlq", "Dead letters: list, reasons, show, redrive, discard."),
    "partition": LazyCommand("partitions", "partition", "Partitions of a topic: list, show, create, delete, states, set-state."),
    "group": LazyCommand("groups", "group", "Consumer groups: list, show, message, create, lag, seek, delete."),
    "user": LazyCommand("users", "user", "Users of a server: list, show, create, update, permissions, password, delete."),
    "token": LazyCommand("tokens", "token", "Personal access tokens: list, show, create, delete."),
    "client": LazyCommand("system", "client", "Connections to a server: list, show."),
    "context": LazyCommand("context", "context", "Named servers and logs: list, show, create, update, use, delete."),
    "ping": LazyCommand("system", "ping", "Check that a server responds."),
    "me": LazyCommand("system", "me", "Show the logged-in user."),
    "stats": LazyCommand("system", "stats", "Show a server's load, memory and counts."),
    "top": LazyCommand("top.command", "top", "Show the rates of topics and the lags of groups, refreshed continuously."),
    "snapshot": LazyCommand("system", "snapshot", "Write an archive for a problem report."),
    "send": LazyCommand("messages", "send", "Send a message."),
    "poll": LazyCommand("messages", "poll", "Show existing messages of a topic."),
    "tail": LazyCommand("messages", "tail", "Show messages as they arrive."),
    "import": LazyCommand("transfer", "import_", "Send the messages of a file, one JSON object per line."),
    "export": LazyCommand("transfer", "export", "Write a topic's messages, one JSON object per line."),
    "mirror": LazyCommand("mirror", "mirror", "Copy topics from one log to another, continuously."),
    "inspect": LazyCommand("inspecting.command", "inspect", "Explain bytes: the format, every field, and errors."),
    "convert": LazyCommand("conversion", "convert_", "Convert messages to another dialect, and report what would be lost."),
    "verify": LazyCommand("verify", "verify", "Check every byte of a log, and optionally repair the log."),
    "backup": LazyCommand("backup", "backup", "Copy a complete log while other processes write to it."),
    "erase": LazyCommand("erasure", "erase", "Erase the messages that match a filter, with their bytes."),
    "replicate": LazyCommand(
        "replicate.command", "replicate", "Qlik Replicate and Debezium: apply changes to Delta tables, inspect messages."
    ),
    "completion": LazyCommand("completion", "completion", "Print a script for the shell that completes commands and topics."),
    "jars": LazyCommand("jars", "jars", "Download the jars that Spark needs."),
}
_EXTRAS: Final = {
    "pyspark": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "deltalake": "spark",
    "numpy": "spark",
    "pyiceberg": "iceberg",
} | dict.fromkeys(("aiohttp", "bcrypt", "cryptography", "jwt", "prometheus_client", "psutil"), "server")
"""Library -> the extra that installs it."""
_INTERRUPTED: Final = 130


class Failure(click.ClickException):
    """An error that is printed and ends the program with exit code 1."""


class Misuse(Failure):
    """An invalid command line, which ends the program with exit code 2."""

    exit_code = 2


class LazyGroup(click.Group):
    """Imports the commands of COMMANDS on demand, and converts errors to messages and exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands, in the order of --help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return a command, or None if the name is unknown."""
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        command: click.Command = getattr(importlib.import_module(f"headstream.cli.{entry.module}"), entry.function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.line) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command."""
        try:
            super().invoke(ctx)
            sys.stdout.flush()
        except (OutputClosedError, BrokenPipeError):
            _discard_output()
        except (InvalidUrlError, InvalidOptionError) as error:
            raise Misuse(str(error)) from error
        except HeadstreamError as error:
            raise Failure(str(error)) from error
        except ModuleNotFoundError as error:
            raise _explain_missing(error) from error
        except OSError as error:
            raise Failure(": ".join(str(part) for part in (error.strerror or error, error.filename) if part)) from error


def _explain_missing(error: ModuleNotFoundError) -> Exception:
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    if extra is None:
        return error
    advice = f"Run: pip install 'headstream[{extra}]'"
    return Failure(str(MissingExtraError(f"{error.name} is not installed", advice=advice)))


def _discard_output() -> None:
    """Redirect standard output to /dev/null, so that flushing at exit does not fail."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from headstream.core.codec.mode import describe
        from headstream.version import __version__

        click.echo(f"headstream {__version__} ({describe()})")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, and whether compiled kernels are used.",
)
def cli() -> None:
    """Message streaming with typed headers, from producer to lakehouse.

    \b
    Examples:
      headstream demo
      export HEADSTREAM_URL=file:///var/lib/shop
      headstream topic create shop/orders --partitions 4
      headstream send shop/orders hello --key 42 --header attempt=uint8:3
      headstream tail shop/orders
    """


def main() -> None:
    """Run the program and exit."""
    if sys.stdout is not None and hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal's missing character must not fail a command
    try:
        code = cli.main(prog_name="headstream", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        code = _INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command is done: a late Ctrl-C must not change the exit code
    sys.exit(code if isinstance(code, int) else 0)
