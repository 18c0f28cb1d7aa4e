"""`headstream top`: live rates and lags of a log in the terminal."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from headstream.cli.shared.checkpoints import pipelines_option, read_checkpoint
from headstream.cli.shared.contexts import place_of
from headstream.cli.shared.output import print_text, write_json_list
from headstream.cli.shared.parameters import Checked, open_log, output_option, url_option, warn_missing_log
from headstream.cli.top.keys import read_key, single_keys
from headstream.cli.top.rates import ORDERS, Overview, Sample, compare, sort_topics
from headstream.client.transports.remote.address import SCHEMES
from headstream.core.model.quantities import parse_duration_us
from headstream.errors import InvalidInputError, NotFoundError, PermissionDeniedError, ServerUnreachableError, UnsupportedError

if TYPE_CHECKING:
    from headstream.client.client import Client
    from headstream.replicate.storage.places import Place

# Samples of a log: its topics, their groups, and the load of its server.

_SERVER_COUNTS: Final = (
    *("memory_bytes", "cpu_usage", "clients_count", "streams_count", "topics_count", "partitions_count"),
    *("messages_count", "messages_size_bytes", "groups_count"),
)


def read_sample(log: Client, url: str, topics: Iterable[str], checkpoints: Mapping[str, Callable[[], Path]]) -> Sample:
    """Return the current state of a log.

    Args:
        checkpoints: Checkpoint of a Replicate pipeline -> a function that returns a directory with the newest ledger.
    """
    found = tuple(log.topics())
    groups = []
    for name in topics:
        with suppress(NotFoundError, PermissionDeniedError):  # just deleted, or the user may only poll
            groups += log.groups(name)
    return Sample(
        time_us=time.time_ns() // 1000,
        topics=found,
        groups=tuple(groups),
        server=_read_server(log, url),
        pipelines={name: _read_pipeline(read()) for name, read in checkpoints.items()},
    )


def _read_server(log: Client, url: str) -> dict[str, Any]:
    scheme = url.partition(":")[0]
    if scheme == "kafka":
        return asdict(log.cluster_stats())
    if scheme not in SCHEMES:
        return {}
    try:
        stats = log.server.stats()
    except (PermissionDeniedError, UnsupportedError):
        return {}
    return {name: getattr(stats, name) for name in _SERVER_COUNTS}


def _read_pipeline(checkpoint: Path) -> dict[str, Any]:
    from headstream.replicate.parked.ledger import Ledger
    from headstream.replicate.run.status import read_status

    with closing(Ledger(checkpoint / "ledger.sqlite", read_only=True)) as ledger:
        return read_status(ledger, time.time_ns() // 1000)


_MOST_TOPICS: Final = 100
"""Default number of topics whose groups are read; one request per topic is needed."""
_SHORTEST_US: Final = 100_000


def parse_interval(text: str) -> float:
    """Convert an interval to seconds; InvalidInputError if it is not a duration, or too short for the log."""
    found = parse_duration_us(text)
    if found < _SHORTEST_US:
        raise InvalidInputError(f"{text!r} is too short", advice="Use 100ms or more")
    return found / 1e6


@click.command()
@click.option(
    "--interval",
    type=Checked("duration", parse_interval),
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="Time between two samples.",
)
@click.option("--count", type=click.IntRange(1), help="End after this number of samples.  [default: until q or Ctrl-C]")
@click.option("--sort", "order", type=click.Choice(ORDERS), default="rate", show_default=True, help="Order of the topics.")
@click.option(
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC",
    help="Show the groups of this topic; repeatable.  [default: the 100 busiest topics]",
)
@pipelines_option
@url_option
@output_option
def top(
    interval: float, count: int | None, order: str, topics: tuple[str, ...], pipelines: tuple[Place, ...], url: str, output: str
) -> None:
    """Show the rates of topics and the lags of consumer groups, refreshed continuously.

    On a terminal, press s to change the order of the topics and q to quit. Without a terminal, one table is printed per sample.
    With --output jsonl, one JSON object is printed per sample, for other programs.

    \b
    Examples:
      headstream top --url headstream://ann@shop.example:8090
      headstream top --url file:///var/lib/shop --sort size --interval 5s
      headstream top --url kafka://broker:9092 --topic shop/orders --count 1 --output json
    """
    place = place_of(url)
    with ExitStack() as stack:
        log = stack.enter_context(open_log(url))
        warn_missing_log(log)
        read = {str(checkpoint): stack.enter_context(read_checkpoint(checkpoint)) for checkpoint in pipelines}
        watched = _Watched(log, url, topics, read, interval)
        if output == "table" and sys.stdout.isatty() and count is None:
            _show(watched, place, order)
            return
        overviews = watched.overviews(order, count)
        with suppress(KeyboardInterrupt):
            if output == "json":
                write_json_list((_to_json(overview, place) for overview in overviews), flush=True)
            for overview in overviews if output != "json" else ():
                if output == "jsonl":
                    print_text(json.dumps(_to_json(overview, place), ensure_ascii=False), flush=True)
                else:
                    _print(overview, place, order, watched.watched_count)


class _Watched:
    """A log and its last sample."""

    def __init__(
        self, log: Client, url: str, topics: tuple[str, ...], checkpoints: Mapping[str, Callable[[], Path]], interval_s: float
    ) -> None:
        self.interval_s = interval_s
        self._log = log
        self._url = url
        self._topics = topics
        self._checkpoints = checkpoints
        self._busiest: list[str] = []
        self._before: Sample | None = None

    def read(self, order: str) -> Overview | None:
        """Take a sample; return the rates since the previous sample, or None if this is the first sample."""

        sample = read_sample(self._log, self._url, self._topics or self._busiest, self._checkpoints)
        before, self._before = self._before, sample
        if before is None:
            self._busiest = [topic.full_name for topic in sample.topics[:_MOST_TOPICS]]
            return None
        overview = compare(before, sample, order)
        self._busiest = [found.topic for found in sort_topics(overview.topics, "rate")[:_MOST_TOPICS]]
        return overview

    @property
    def watched_count(self) -> int:
        """Number of topics whose groups the next sample reads."""
        return len(self._topics or self._busiest)

    def overviews(self, order: str, count: int | None) -> Iterator[Overview]:
        """Yield one overview per interval, `count` in total, or without end if `count` is None."""
        given = 0
        while given != count:
            if (overview := self.read(order)) is not None:
                yield overview
                given += 1
            if given != count:
                time.sleep(self.interval_s)


def _show(watched: _Watched, place: str, order: str) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    from headstream.cli.top.view import draw

    console = Console(emoji=False, markup=False, highlight=False)
    shown: Any = Text(f"{place}\ntaking the first sample", style="bold")
    with suppress(KeyboardInterrupt), single_keys(), Live(shown, console=console, screen=True, auto_refresh=False) as live:
        while True:
            try:
                overview = watched.read(order)
            except ServerUnreachableError as error:  # the server may be restarting
                live.update(Text(f"{place}\n{error}\nRetrying.", style="red"), refresh=True)
            else:
                if overview is not None:
                    live.update(draw(overview, place, order, watched.watched_count, console.height), refresh=True)
            until_s = time.monotonic() + watched.interval_s
            while (left_s := until_s - time.monotonic()) > 0:
                key = read_key(left_s)
                if key in ("q", "Q", "\x03"):
                    return
                if key == "s":
                    order = ORDERS[(ORDERS.index(order) + 1) % len(ORDERS)]
                    break


def _print(overview: Overview, place: str, order: str, watched_count: int) -> None:
    from rich.console import Console

    from headstream.cli.top.view import draw

    console = Console(emoji=False, markup=False, highlight=False, width=max(shutil.get_terminal_size((120, 24)).columns, 80))
    with console.capture() as capture:
        console.print(draw(overview, place, order, watched_count))
    print_text("\n".join(line.rstrip() for line in capture.get().splitlines()), flush=True)


def _to_json(overview: Overview, place: str) -> dict[str, Any]:
    found: dict[str, Any] = _round({"log": place, **asdict(overview)})
    return found


def _round(value: Any) -> Any:
    """Round all fractions in a JSON value to thousandths, because rates are not more precise."""
    if isinstance(value, dict):
        return {name: _round(member) for name, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_round(member) for member in value]
    return round(value, 3) if isinstance(value, float) else value
