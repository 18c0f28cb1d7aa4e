"""Parameters that commands share: the options --url and --output, and arguments that are checked before a log is opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from headstream.core.model.identifiers import TopicName, check_name
from headstream.core.model.local_paths import parse_local_path
from headstream.core.model.message import parse_state
from headstream.core.model.polling import PollingKind, PollingStrategy
from headstream.core.model.quantities import parse_duration_us
from headstream.errors import HeadstreamError, InvalidInputError

if TYPE_CHECKING:
    from headstream.client.client import Client

FORMS: Final = ("table", "json", "jsonl")
_AT_ONCE: Final = {"connect_timeout_ms": 1000, "timeout_ms": 2000, "retry_timeout_ms": 0}
"""Connection options for interactive commands."""

_NAMED: Final = (PollingKind.FIRST, PollingKind.LAST, PollingKind.NEXT)
_Function = TypeVar("_Function", bound=Callable[..., Any])


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # not generic in older versions of click


class Checked(_ParamType):
    """A parameter type that `read` parses, called `name` in --help. Errors of `read` become usage errors."""

    def __init__(self, name: str, read: Callable[[str], Any]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Parse a value; raise a usage error if it is invalid."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except HeadstreamError as error:
            self.fail(str(error), param, ctx)


class LocalPath(click.Path):
    """A parameter type for a local path. A path with an unsupported scheme is a usage error.

    Args:
        is_table: Whether the path is for Delta tables; then a catalog's table name is rejected too.
        directory: Whether an existing path must be a directory (True) or a file (False).
        exists: Whether the path must exist.
    """

    def __init__(self, *, is_table: bool = False, directory: bool = True, exists: bool = False) -> None:
        super().__init__(exists=exists, file_okay=not directory, dir_okay=directory, path_type=Path)
        self._is_table = is_table

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; raise a usage error if the value is not a local path."""
        if isinstance(value, str):
            try:
                value = parse_local_path(value, is_table=self._is_table)
            except HeadstreamError as error:
                self.fail(str(error), param, ctx)
            if value.startswith("."):
                value = str(Path(value).absolute())  # pathlib drops the ./ that distinguishes it from a catalog's name
        return super().convert(value, param, ctx)


class StorablePlace(LocalPath):
    """A parameter type for a local path or a URI of an object store, which is converted to a StorePlace.

    Args:
        exists: Whether a local path must exist.
        is_table: Whether the path is for Delta tables; then a catalog's table name is rejected too.
        directory: As for LocalPath.
    """

    def __init__(self, *, exists: bool = False, is_table: bool = False, directory: bool = True) -> None:
        super().__init__(exists=exists, is_table=is_table, directory=directory)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the StorePlace; raise a usage error if the scheme is unsupported."""
        if isinstance(value, str) and "://" in value:
            from headstream.replicate.storage.places import StorePlace, parse_place

            try:
                place = parse_place(value, is_table=self._is_table)
            except HeadstreamError as error:
                self.fail(str(error), param, ctx)
            if isinstance(place, StorePlace):
                return place
        return super().convert(value, param, ctx)


def parse_states(text: str) -> tuple[str, ...] | None:
    """Parse states such as `available,poisoned`; return None for `all`. InvalidInputError for an unknown state."""
    if text.strip().lower() == "all":
        return None
    names = tuple(name.strip().lower() for name in text.split(","))
    for name in names:
        parse_state(name)
    return names


def url_option(function: _Function, *, is_required: bool = True) -> _Function:
    """Add --url, with HEADSTREAM_URL and the current context as defaults; commands can also call require_url()."""
    return click.option(
        "--url",
        envvar="HEADSTREAM_URL",
        show_envvar=True,
        metavar="URL",
        callback=require_url if is_required else None,
        help="URL of the log, such as file:///var/lib/shop or headstream://user@host:8090. [default: the current context]",
    )(function)


DURATION: Final = Checked("duration", parse_duration_us)
"""A duration such as 10s, converted to microseconds."""


def output_option(function: _Function) -> _Function:
    """Add --output, whose default is `table`."""
    return click.option("--output", type=click.Choice(FORMS), default="table", show_default=True, help="The output format.")(
        function
    )


def states_option(function: _Function) -> _Function:
    """Add --states, the states of the selected messages, whose default is `available`."""
    return click.option(
        "--states",
        type=Checked("state,...", parse_states),
        default="available",
        show_default=True,
        metavar="STATE,...|all",
        help="Select messages in these states: available, unavailable, poisoned, marked_for_deletion, unknown(n).",
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
    """Return the parameter type for a start: an offset, a time, or one of `names`, a subset of first, last and next."""

    def read(text: str) -> PollingStrategy:
        from headstream.client.arguments import start_of

        try:
            start = start_of(text)
        except InvalidInputError:
            start = None
        if start is None or (start.kind in _NAMED and start.kind.name.lower() not in names):
            allowed = "".join(f", {name}" for name in names)
            raise InvalidInputError(
                f"{text!r} is not a valid start",
                advice=f"Use an offset, a time such as 2026-01-31T12:00:00Z, an age such as -1h{allowed}",
            )
        return start

    return Checked("|".join(("offset", "time", *names)), read)


def until_option(function: _Function) -> _Function:
    """Add --until, the exclusive end of the messages."""
    return click.option("--until", type=start_parameter(), help="Stop before this offset, time or age (-30m) in each partition.")(
        function
    )


def complete_names(
    names: Callable[[Client, click.Context], list[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a shell completion of names in the log, given the preceding arguments; no names if the log responds slowly."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        from headstream.cli.shared.secrets import resolve_url
        from headstream.client.transports.remote.address import SCHEMES
        from headstream.connect import connect

        try:
            url = resolve_url(ctx.params.get("url"))
            if not url:
                return []
            options: dict[str, Any] = _AT_ONCE if url.partition(":")[0] in SCHEMES else {}
            with connect(url, **options) as log:
                return [name for name in names(log, ctx) if name.startswith(incomplete)]
        except (HeadstreamError, click.ClickException):
            return []

    return complete


PARTITION: Final = click.IntRange(0)
"""A partition number, from 1 (in Kafka from 0)."""


def open_log(url: str, *, is_plain: bool = False) -> Client:
    """Return a client for a URL, which the caller closes. Ask for a missing password; `is_plain` disables interceptors."""
    from headstream.cli.shared.secrets import add_password
    from headstream.connect import connect, connect_plain

    return connect_plain(add_password(url)) if is_plain else connect(add_password(url))


def warn_missing_log(log: Client) -> None:
    """Warn on standard error if there is no log at the URL, because the URL may be mistyped."""
    if log.identity is None:
        click.echo("There is no log at this URL: check the URL. Creating the first topic creates the log.", err=True)


def require_url(ctx: click.Context, param: click.Parameter | None, value: str | None) -> str:
    """Return the given URL, or the URL of the current context; raise a usage error if neither exists."""
    if ctx.resilient_parsing:
        return value or ""
    from headstream.cli.shared.secrets import resolve_url

    url = resolve_url(value)
    if not url:
        raise click.UsageError("No log: pass --url, set HEADSTREAM_URL, or use a context.", ctx)
    return url
