"""`headstream dlq`: list, reasons, show, redrive, discard, for a dead-letter topic or a Replicate pipeline."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

import click

from headstream.cli.shared.checkpoints import ask_pipeline, checkpoint_options, read_checkpoint
from headstream.cli.shared.confirmation import confirm, yes_option
from headstream.cli.shared.filtering import FilterInput, filter_options
from headstream.cli.shared.output import print_object, print_objects
from headstream.cli.shared.parameters import PARTITION, Checked, open_log, output_option, require_url, topic_argument, url_option
from headstream.core.model.reserved import (
    ATTEMPTS_HEADER,
    FIRST_ERROR_HEADER,
    FIRST_FAILED_HEADER,
    LAST_FAILED_HEADER,
    ORIGIN_PREFIX,
    REASON_CODE_HEADER,
    REASON_HEADER,
    REDRIVES_HEADER,
    RESERVED_PREFIX,
)
from headstream.errors import InvalidInputError, OffsetOutOfRangeError

if TYPE_CHECKING:
    from headstream.client.client import Client
    from headstream.core.model.message import ReceivedMessage
    from headstream.replicate.parked.message_states import MessageStates
    from headstream.replicate.storage.places import Place

_COLUMNS: Final = ("partition", "offset", "origin", "group", "reason_code", "attempts", "reason")
_REASON_COLUMNS: Final = ("count", "topic", "group", "reason_code", "reason", "most_attempts")
_HISTORY: Final = (FIRST_ERROR_HEADER, FIRST_FAILED_HEADER, LAST_FAILED_HEADER, REDRIVES_HEADER)
_RATE: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)/s")


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """The dead letters of a topic; `states` has each dead letter's state in the pipeline, None if no pipeline uses the topic."""

    log: Client
    topic: str
    states: MessageStates | None

    def find(self, chosen: FilterInput) -> Iterator[ReceivedMessage]:
        """Yield the dead letters that match a filter and can be redriven or discarded."""
        from headstream.client.dead_letters.reading import iterate_dead_letters

        found = iterate_dead_letters(self.log, self.topic, chosen.where, chosen.on_error)
        return found if self.states is None else self.states.choose(found)

    def state_of(self, letter: ReceivedMessage) -> str:
        """Return a dead letter's state as a string for display."""
        return letter.state.name.lower() if self.states is None else self.states.state_of(letter.offset)


@dataclass(frozen=True, slots=True)
class DeadLetterSource:
    """The source of a command's dead letters: the log at `url`, or the log of the pipeline with this checkpoint."""

    topic: str
    url: str
    checkpoint: Place | None

    @contextmanager
    def open(self, *, is_plain: bool = False) -> Iterator[DeadLetterTopic]:
        """Yield the dead letters, and close the log afterwards. `is_plain` ignores the configured interceptors."""
        if self.checkpoint is None:
            with open_log(self.url, is_plain=is_plain) as log:
                yield DeadLetterTopic(log, self.topic, None)
            return
        from headstream.replicate.parked.message_states import MessageStates

        with read_checkpoint(self.checkpoint, with_log=True) as read:
            directory = read()
            with open_log((directory / "log").resolve().as_uri()) as log:
                yield DeadLetterTopic(log, self.topic, MessageStates(directory, self.topic))

    def ask(self, kind: Literal["redrive", "discard"], offsets: Iterable[int]) -> int | str:
        """Request that the pipeline redrive or discard dead letters at ascending offsets; return the request's number or name."""
        from headstream.core.model.offset_ranges import ranges_of
        from headstream.replicate.parked.message_states import REDRIVEN_STATES
        from headstream.replicate.parked.requests import ParkedRanges, Selection

        assert self.checkpoint is not None
        selection = Selection(states=REDRIVEN_STATES, within=ParkedRanges(self.topic, tuple(ranges_of(offsets))))
        return ask_pipeline(self.checkpoint, kind, selection.to_document())


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --url, --checkpoint, --config and the argument TOPIC to a command, which receives all of them as `source`."""

    @functools.wraps(function)
    def with_source(topic: str, url: str | None, checkpoint: Place | None, **options: Any) -> Any:
        given = "" if checkpoint is not None else require_url(click.get_current_context(), None, url)
        return function(source=DeadLetterSource(topic, given, checkpoint), **options)

    return url_option(checkpoint_options(with_source, is_required=False), is_required=False)


def _parse_rate(text: str) -> float:
    found = _RATE.fullmatch(text.strip())
    if found is None or not float(found[1]):
        raise InvalidInputError(f"{text!r} is not a rate", advice="Write messages per second, for example 100/s")
    return float(found[1])


_dry_run_option = click.option("--dry-run", is_flag=True, help="Only count the dead letters that match.")


@click.group()
def dlq() -> None:
    """Manage dead letters, the copies of permanently failed messages in a dead-letter topic. With --checkpoint, TOPIC is
    replicate/dead-letter or the delayed topic of a Replicate pipeline.

    \b
    Examples:
      headstream dlq list shop/orders.dead
      headstream dlq reasons shop/orders.dead
      headstream dlq redrive shop/orders.dead --where "hs.origin.group = 'billing'" --rate 100/s
      headstream dlq list replicate/dead-letter --checkpoint /data/checkpoint
    """


@dlq.command("list")
@topic_argument
@click.option("--count", type=click.IntRange(1), default=100, show_default=True, help="Maximum number of dead letters to print.")
@filter_options
@source_options
@output_option
def list_dead_letters(source: DeadLetterSource, count: int, chosen: FilterInput, output: str) -> None:
    """List the dead letters of TOPIC with their origin, group and reason.

    \b
    Example:
      headstream dlq list shop/orders.dead --where "hs.reason_code = 'rejected'"
    """
    with source.open() as letters:
        if chosen.explain(letters.log, output):
            return
        rows = [_describe(letter) for _, letter in zip(range(count), letters.find(chosen), strict=False)]
    print_objects(rows, _COLUMNS, output)


@dlq.command()
@topic_argument
@filter_options
@source_options
@output_option
def reasons(source: DeadLetterSource, chosen: FilterInput, output: str) -> None:
    """Count the dead letters of TOPIC by origin, group and reason, the most frequent first.

    At most 500 different reasons are listed; dead letters with other reasons are counted together.

    \b
    Example:
      headstream dlq reasons shop/orders.dead
    """
    from headstream.client.dead_letters.reading import ReasonCounts

    with source.open() as letters:
        if chosen.explain(letters.log, output):
            return
        found = ReasonCounts()
        for letter in letters.find(chosen):
            found.add(letter)
    print_objects(found.to_documents(), _REASON_COLUMNS, output)


@dlq.command()
@topic_argument
@click.argument("number", metavar="PARTITION", type=PARTITION)
@click.argument("offset", type=click.IntRange(0))
@source_options
@output_option
def show(source: DeadLetterSource, number: int, offset: int, output: str) -> None:
    """Show one dead letter of TOPIC, by PARTITION and OFFSET, with its delivery history.

    \b
    Example:
      headstream dlq show shop/orders.dead 1 17
    """
    with source.open() as letters:
        found = letters.log.poll(source.topic, number, start=offset, count=1, states=None)
    if not found or found[0].offset != offset:
        raise OffsetOutOfRangeError(
            f"there is no message {offset} in partition {number}", where=source.topic, advice="See `headstream dlq list`"
        )
    letter = found[0]
    history = {name: _plain(letter, name) for name in _HISTORY}
    members = {**_describe(letter), "state": letters.state_of(letter), **{_short(name): value for name, value in history.items()}}
    print_object(members, output)


@dlq.command()
@topic_argument
@filter_options
@_dry_run_option
@click.option("--rate", type=Checked("rate", _parse_rate), help="Maximum number of dead letters per second, for example 100/s.")
@source_options
@output_option
def redrive(source: DeadLetterSource, chosen: FilterInput, dry_run: bool, rate: float | None, output: str) -> None:
    """Send the dead letters of TOPIC back to their original topics, exactly once, and mark them for deletion.

    A message keeps its payload, key, id and headers; the header hs.redrives counts the redrives. All groups of the topic receive
    the message again. The next redrive finishes an interrupted redrive. With --checkpoint, the command sends a request: the
    pipeline applies the messages like new messages, within a second if it is running, otherwise in its next run.

    \b
    Examples:
      headstream dlq redrive shop/orders.dead --dry-run
      headstream dlq redrive shop/orders.dead --where "_timestamp >= '2026-01-31'" --rate 100/s
      headstream dlq redrive replicate/dead-letter --checkpoint /data/checkpoint --where "hs.reason LIKE 'cut short%'"
    """
    if rate is not None and source.checkpoint is not None:
        raise click.UsageError("--rate cannot be used with --checkpoint: the pipeline applies all redriven messages together.")
    with source.open(is_plain=True) as letters:
        if chosen.explain(letters.log, output):
            return
        members = _redrive(source, letters, chosen, rate, is_dry=dry_run)
    print_object({"topic": source.topic, "dry_run": dry_run, **members}, output)


def _redrive(
    source: DeadLetterSource, letters: DeadLetterTopic, chosen: FilterInput, rate: float | None, *, is_dry: bool
) -> dict[str, Any]:
    """Send dead letters back, or request this from their pipeline; return the members of the output."""
    from headstream.client.dead_letters.reading import place_of_origin
    from headstream.client.dead_letters.redriving import Redrive, RedriveCounts

    if source.checkpoint is not None:
        offsets = [letter.offset for letter in letters.find(chosen)]
        request = None if is_dry or not offsets else source.ask("redrive", offsets)
        return {"matched": len(offsets), "redriven": 0, "resumed": 0, "foreign": 0, "request": request}
    counts = RedriveCounts()
    if is_dry:
        for letter in letters.find(chosen):
            counts.matched += 1
            counts.foreign += place_of_origin(letter) is None
    else:
        counts = Redrive(letters.log, source.topic, chosen.where, rate, chosen.on_error).run()
    return {name: getattr(counts, name) for name in ("matched", "redriven", "resumed", "foreign")}


@dlq.command()
@topic_argument
@filter_options
@_dry_run_option
@yes_option
@source_options
@output_option
def discard(source: DeadLetterSource, chosen: FilterInput, dry_run: bool, yes: bool, output: str) -> None:
    """Mark dead letters of TOPIC for deletion; consumers, `dlq list`, `dlq reasons` and `dlq redrive` skip marked messages.

    Marked messages are removed after the topic's deletion grace period. With --checkpoint, a request is sent to the pipeline.

    \b
    Example:
      headstream dlq discard shop/orders.dead --where "hs.origin.offset = 17"
    """
    from headstream.client.dead_letters.reading import discard_dead_letters

    found: dict[int, list[int]] = {}
    members: dict[str, Any] = {}
    with source.open() as letters:
        if chosen.explain(letters.log, output):
            return
        for letter in letters.find(chosen):
            found.setdefault(letter.partition, []).append(letter.offset)
        count = sum(map(len, found.values()))
        if count and not dry_run:
            confirm(f"Mark {count} dead letter{'s' * (count != 1)} of {source.topic} for deletion", yes=yes)
        if source.checkpoint is not None:
            offsets = [offset for each in found.values() for offset in each]
            members = {"request": None if dry_run or not count else source.ask("discard", offsets)}
        elif not dry_run:
            discard_dead_letters(letters.log, source.topic, found)
    discarded = count if not dry_run and source.checkpoint is None else 0
    print_object({"topic": source.topic, "dry_run": dry_run, "matched": count, "discarded": discarded, **members}, output)


def _short(name: str) -> str:
    short = name.removeprefix(RESERVED_PREFIX)
    return f"{short}_us" if name in (FIRST_FAILED_HEADER, LAST_FAILED_HEADER) else short


def _plain(letter: ReceivedMessage, name: str) -> Any:
    value = letter.headers.get(name)
    return None if value is None else value.value


def _describe(letter: ReceivedMessage) -> dict[str, Any]:
    place = [_plain(letter, f"{ORIGIN_PREFIX}{name}") for name in ("topic", "partition", "offset")]
    return {
        "topic": letter.topic,
        "partition": letter.partition,
        "offset": letter.offset,
        "origin": None if None in place else "/".join(map(str, place)),
        "group": _plain(letter, f"{ORIGIN_PREFIX}group"),
        "reason_code": _plain(letter, REASON_CODE_HEADER),
        "attempts": _plain(letter, ATTEMPTS_HEADER),
        "reason": _plain(letter, REASON_HEADER),
        "timestamp_us": letter.timestamp,
    }
