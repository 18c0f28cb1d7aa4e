"""The program `headstream`: commands by name, each imported when it is called, and what becomes of errors.

    exit code   0 fine; 1 failed: the error stands on standard error, one text without a traceback; 2 misused
                130 ended by Ctrl-C, except where that is the way to end it (tail, replicate run without --once)

When whoever reads standard output leaves, as `head` does, a command ends silently with 0.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
from typing import Any, Final, NamedTuple

import click

from headstream.cli.output import ReaderLeftError
from headstream.errors import HeadstreamError, InvalidOptionError, InvalidUrlError, MissingExtraError

__all__ = ["cli", "main"]


class Entry(NamedTuple):
    """Where a command is: its module, the function in it, and what --help says in a line."""

    module: str
    function: str
    line: str


COMMANDS: Final = {
    "demo": Entry("demo", "demo", "The whole story on this machine, in a minute."),
    "server": Entry("server", "server", "Serve a log over TCP and HTTP."),
    "stream": Entry("streams", "stream", "Streams: list, show, create, update, delete."),
    "topic": Entry("topics", "topic", "Topics: list, show, create, update, delete, purge."),
    "partition": Entry("partitions", "partition", "Partitions of a topic: list, show, create, delete, states, set-state."),
    "group": Entry("groups", "group", "Consumer groups: list, show, create, lag, seek, delete."),
    "user": Entry("users", "user", "Users of a server: list, show, create, update, permissions, password, delete."),
    "token": Entry("tokens", "token", "Personal access tokens: list, show, create, delete."),
    "client": Entry("system", "client", "Connections to a server: list, show."),
    "context": Entry("context", "context", "Servers and logs by name: list, show, create, update, use, delete."),
    "ping": Entry("system", "ping", "Check that a server answers."),
    "me": Entry("system", "me", "Show who is logged in."),
    "stats": Entry("system", "stats", "Show a server's load, memory and counts."),
    "snapshot": Entry("system", "snapshot", "Write an archive for a report of a problem."),
    "send": Entry("messages", "send", "Send a message."),
    "poll": Entry("messages", "poll", "Show messages of a partition."),
    "tail": Entry("messages", "tail", "Show messages as they come."),
    "import": Entry("transfer", "import_", "Send the messages of a file, one JSON object a line."),
    "export": Entry("transfer", "export", "Write a topic's messages, one JSON object a line."),
    "inspect": Entry("inspecting.command", "inspect", "Explain any bytes: which format, every field, where they break."),
    "convert": Entry("conversion", "convert_", "Write messages in another dialect, and say before what would be lost."),
    "verify": Entry("verify", "verify", "Check every byte of a log, and repair what can be repaired."),
    "backup": Entry("backup", "backup", "Copy a whole log, while it is written to."),
    "replicate": Entry("replicate", "replicate", "Qlik Replicate: turn its messages into Delta tables, inspect them."),
    "completion": Entry("completion", "completion", "Print a script that completes commands and topics."),
    "jars": Entry("jars", "jars", "Fetch the JVM's jars that Spark needs."),
}
_EXTRAS: Final = {
    "pyspark": "spark",
    "pyarrow": "spark",
    "pandas": "spark",
    "deltalake": "spark",
    "numpy": "spark",
} | dict.fromkeys(("aiohttp", "bcrypt", "cryptography", "jwt", "prometheus_client", "psutil"), "server")
"""Library -> the extra that brings it."""
_INTERRUPTED: Final = 130


class Failure(click.ClickException):
    """An error that is told and ends the program with 1."""


class Misuse(Failure):
    """A failure that the command line brought about: it ends the program with 2."""

    exit_code = 2


class LazyGroup(click.Group):
    """The commands of COMMANDS, imported one at a time, and the one place where errors become a text and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every command's name, in the order of --help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command, or return None where there is none of that name."""
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
        except (ReaderLeftError, BrokenPipeError):
            _let_go_of_output()
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


def _let_go_of_output() -> None:
    """Point standard output at nothing, so that what is buffered is not written to nobody at exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from headstream.codec.mode import describe
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
    help="Show the version, and whether the kernels run compiled.",
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
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character is no failure
    try:
        code = cli.main(prog_name="headstream", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except click.Abort:
        click.echo("interrupted", err=True)
        code = _INTERRUPTED
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left that a late Ctrl-C could end in good order
    sys.exit(code if isinstance(code, int) else 0)
