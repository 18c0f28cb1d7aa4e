"""What commands have in common: the options --url and --output, and arguments that are checked before anything is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from headstream.errors import HeadstreamError, InvalidInputError
from headstream.model.identifiers import TopicName, check_name
from headstream.model.local_paths import parse_local_path
from headstream.model.message import parse_state
from headstream.model.polling import PollingKind, PollingStrategy

if TYPE_CHECKING:
    from headstream.client.client import Client

__all__ = [
    "FORMS",
    "Checked",
    "LocalPath",
    "complete_names",
    "open_log",
    "output_option",
    "parse_states",
    "parse_topics",
    "start_parameter",
    "states_option",
    "stream_argument",
    "tell_of_no_log",
    "topic_argument",
    "until_option",
    "url_option",
]

FORMS: Final = ("table", "json", "jsonl")
_AT_ONCE: Final = {"connect_timeout_ms": 1000, "timeout_ms": 2000, "retry_timeout_ms": 0}
"""How a server is asked while somebody waits at a shell."""

_NAMED: Final = (PollingKind.FIRST, PollingKind.LAST, PollingKind.NEXT)
_Function = TypeVar("_Function", bound=Callable[..., Any])


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # not generic in older versions of click


class Checked(_ParamType):
    """A parameter that a function of ours reads: what it refuses is a misuse of the command, told as such.

    Args:
        name: What --help calls it.
        read: Text -> value, or HeadstreamError.
    """

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value that a text spells; a usage error where it spells none."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except HeadstreamError as error:
            self.fail(str(error), param, ctx)


class LocalPath(click.Path):
    """A path of this machine, as a Path; one with a scheme that cannot be served is a misuse of the command.

    Args:
        is_table: Whether Delta tables lie there, so that a catalog's name is refused too.
        directory: Whether it has to be a directory where it exists, else a file.
        exists: Whether it has to exist.
    """

    def __init__(self, *, is_table: bool = False, directory: bool = True, exists: bool = False) -> None:
        super().__init__(exists=exists, file_okay=not directory, dir_okay=directory, path_type=Path)
        self._is_table = is_table

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path that a text names; a usage error where it names none of this machine."""
        if isinstance(value, str):
            try:
                value = parse_local_path(value, is_table=self._is_table)
            except HeadstreamError as error:
                self.fail(str(error), param, ctx)
            if value.startswith("."):
                value = str(Path(value).absolute())  # pathlib drops the ./ that says that no name of a catalog is meant
        return super().convert(value, param, ctx)


def parse_states(text: str) -> tuple[str, ...] | None:
    """Return the states that `available,poisoned` names, or None for `all`.

    Raises:
        InvalidInputError: no state has such a name.
    """
    if text.strip().lower() == "all":
        return None
    names = tuple(name.strip().lower() for name in text.split(","))
    for name in names:
        parse_state(name)
    return names


def parse_topics(text: str) -> tuple[str, ...]:
    """Return the topics that `shop/orders,shop/returns` names.

    Raises:
        InvalidInputError: one of them is no topic.
    """
    return tuple(str(TopicName.parse(name.strip())) for name in text.split(","))


def url_option(function: _Function) -> _Function:
    """Add --url, which HEADSTREAM_URL stands in for, and the context in use."""
    return click.option(
        "--url",
        envvar="HEADSTREAM_URL",
        show_envvar=True,
        metavar="URL",
        callback=_require_url,
        help="The log, as in file:///var/lib/shop or headstream://user@host:8090; else the context in use.",
    )(function)


def output_option(function: _Function) -> _Function:
    """Add --output, a table where nothing is said."""
    return click.option(
        "--output", type=click.Choice(FORMS), default="table", show_default=True, help="The form of what is printed."
    )(function)


def states_option(function: _Function) -> _Function:
    """Add --states: those of the messages to show, the available ones where nothing is said."""
    return click.option(
        "--states",
        type=Checked("state,...", parse_states),
        default="available",
        show_default=True,
        metavar="STATE,...|all",
        help="States of the messages to show: available, unavailable, poisoned, marked_for_deletion, unknown(n).",
    )(function)


def topic_argument(function: _Function) -> _Function:
    """Add the argument TOPIC: stream/topic."""
    kind = Checked("topic", lambda text: str(TopicName.parse(text)))
    names = complete_names(lambda log, _: [topic.full_name for topic in log.topics()])
    return click.argument("topic", type=kind, shell_complete=names)(function)


def stream_argument(function: _Function) -> _Function:
    """Add the argument STREAM."""
    kind = Checked("stream", lambda text: check_name(text, "stream"))
    names = complete_names(lambda log, _: [stream.name for stream in log.streams()])
    return click.argument("stream", type=kind, shell_complete=names)(function)


def start_parameter(*names: str) -> Checked:
    """Return the type of an option that says where to begin: an offset, a time, or one of some names.

    Args:
        names: Of first, last and next, those that mean something to the command.
    """

    def read(text: str) -> PollingStrategy:
        from headstream.client.arguments import start_of

        try:
            start = start_of(text)
        except InvalidInputError:
            start = None
        if start is None or (start.kind in _NAMED and start.kind.name.lower() not in names):
            allowed = "".join(f", {name}" for name in names)
            raise InvalidInputError(
                f"{text!r} is not a place to begin",
                advice=f"Use an offset, a time such as 2026-01-31T12:00:00Z, how long ago as in -1h{allowed}",
            )
        return start

    return Checked("|".join(("offset", "time", *names)), read)


def until_option(function: _Function) -> _Function:
    """Add --until: the place before which messages end."""
    return click.option(
        "--until", type=start_parameter(), help="End before this offset, time or how long ago (-30m), in each partition."
    )(function)


def complete_names(
    names: Callable[[Client, click.Context], list[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return what a shell asks for the names that an argument may be: those of the log, if it can be asked and answers soon.

    Args:
        names: Returns them, given the log and what stands before.
    """

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        from headstream.cli.secrets import resolve_url
        from headstream.client.remote.address import SCHEMES
        from headstream.connect import connect

        try:
            url = resolve_url(ctx.params.get("url"), may_ask=False)
            if not url:
                return []
            with connect(url, **(_AT_ONCE if url.partition(":")[0] in SCHEMES else {})) as log:
                return [name for name in names(log, ctx) if name.startswith(incomplete)]
        except (HeadstreamError, click.ClickException):
            return []

    return complete


def open_log(url: str) -> Client:
    """Return the client of a URL, to be closed by the caller."""
    from headstream.connect import connect

    return connect(url)


def tell_of_no_log(log: Client) -> None:
    """Say on standard error why there is nothing to list, where there is no log yet: the place may be mistyped."""
    if log.identity is None:
        click.echo("There is no log at that place yet: see that the URL is right. The first topic makes it.", err=True)


def _require_url(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    if ctx.resilient_parsing:
        return value or ""
    from headstream.cli.secrets import resolve_url

    url = resolve_url(value)
    if not url:
        raise click.UsageError("No log is named: give --url, set HEADSTREAM_URL, or use a context.", ctx)
    return url
