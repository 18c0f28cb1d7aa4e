"""`headstream erase`: removes matching messages from the disk, and lists the places that can still contain copies."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import click

from headstream.cli.shared.confirmation import confirm, describe_loss, yes_option
from headstream.cli.shared.filtering import FilterInput, filter_options
from headstream.cli.shared.output import print_object, print_objects, print_text
from headstream.cli.shared.parameters import output_option, topic_argument, url_option

if TYPE_CHECKING:
    from headstream.client.dead_letters.erasing import ErasedPartition

_COLUMNS: Final = ("topic", "partition", "found", "found_bytes", "failed", "removed", "removed_bytes", "rewritten_segments")
_QUARANTINE_MARKS: Final = (".set-aside-", ".rest-")
"""Parts of the names of files that a recovery has renamed (log/partition/recovery.py); these files can contain messages."""
_ELSEWHERE: Final = (
    "backups, snapshots and exports of this log: erase the messages in each copy, or delete the copy",
    "mirrors, and Kafka topics with copies: run this command on each",
    "Delta tables: delete the rows, and run VACUUM when their history has expired",
    "consumers and their databases",
)


@click.command()
@topic_argument
@filter_options
@click.option(
    "--dead-letter",
    "dead_letters",
    multiple=True,
    metavar="TOPIC",
    help="Also erase the copies of the matching messages in this dead-letter topic; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Only report the messages that would be erased.")
@yes_option
@url_option
@output_option
def erase(
    topic: str, chosen: FilterInput, dead_letters: tuple[str, ...], dry_run: bool, yes: bool, url: str, output: str
) -> None:
    """Erase the messages of TOPIC that match --where, in any state; afterwards, no segment contains their bytes.

    Segments with such messages are rewritten; offsets do not change. Messages that arrive during the command are not examined.
    To finish an interrupted erasure, run the command again. A message to which the filter cannot be applied is kept, and counted
    as failed; with --on-filter-error raise, such a message stops the command before anything is changed.

    \b
    Examples:
      headstream erase shop/orders --where "user_id = 42" --dry-run
      headstream erase shop/orders --where "user_id = 42" --dead-letter shop/orders.dead --yes
    """
    from headstream.client.dead_letters.erasing import Erasure, find_dead_letter_topics
    from headstream.connect import connect_plain

    if chosen.where is None:
        raise click.UsageError("--where is required: it selects the messages to erase.")
    with connect_plain(url) as log, ExitStack() as stack:
        if chosen._replace(states=None).explain(log, output):
            return
        bar = _ProgressBar(stack)
        erasure = Erasure(log, topic, chosen.where, dead_letters, on_error=chosen.on_error, on_progress=bar.show)
        found = erasure.find()
        if not dry_run:
            bar.hide()
            count, size_bytes = sum(len(each.offsets) for each in found), sum(each.found_bytes for each in found)
            if count:
                names = ", ".join(dict.fromkeys(each.topic for each in found))
                confirm(f"Erase {describe_loss(count, size_bytes)} of {names}", yes=yes)
            found = erasure.run()
        bar.hide()
        unsearched = [name for name in find_dead_letter_topics(log, topic) if name not in dead_letters]
        remains = _list_remains(url, unsearched)
    _print(topic, found, remains, dry_run, output)


def _list_remains(url: str, letters: Sequence[str]) -> list[str]:
    """Return the places that can still contain the messages' bytes, the most likely first."""
    remains = [f"dead letters in {name}: add --dead-letter {name}" for name in letters]
    parts = urlsplit(url)
    if parts.scheme == "file":
        remains += [f"a file that a recovery has renamed; check this file: {path}" for path in _quarantine(unquote(parts.path))]
    else:
        remains.append("files that a recovery has renamed on the server: headstream verify DIR lists the files")
    return [*remains, *_ELSEWHERE]


def _quarantine(root: str) -> Iterator[str]:
    for directory, subdirectories, names in os.walk(root):
        for name in sorted((*subdirectories, *names)):
            if any(part in name for part in _QUARANTINE_MARKS):
                yield f"{directory}/{name}"


def _print(topic: str, found: Sequence[ErasedPartition], remains: list[str], dry_run: bool, output: str) -> None:
    rows = [_describe(each) for each in found]
    sums = {name: sum(row[name] for row in rows) for name in _COLUMNS[2:]}
    if output != "table":
        print_object({"topic": topic, "dry_run": dry_run, **sums, "partitions": rows, "remains": remains}, output)
        return
    print_object({"topic": topic, "dry_run": dry_run, **sums}, output)
    print_text("")
    print_objects(rows, _COLUMNS, output)
    print_text("\nNot examined or not erased:")
    for line in remains:
        print_text(f"  {line}")


def _describe(each: ErasedPartition) -> dict[str, Any]:
    return {
        "topic": each.topic,
        "partition": each.number,
        "found": len(each.offsets),
        "found_bytes": each.found_bytes,
        "failed": each.failed_count,
        "removed": each.removal.removed_count,
        "removed_bytes": each.removal.removed_bytes,
        "rewritten_segments": each.removal.rewritten_count,
    }


class _ProgressBar:
    """Shows the progress of an erasure on a terminal; `stack` ends the display. Without a terminal nothing is shown."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._hide: Callable[[], None] | None = None
        self._update: Callable[..., None] | None = None

    def show(self, step: str, done: int, total: int) -> None:
        """Show the progress of a step."""
        if not sys.stderr.isatty():
            return
        if self._update is None:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
            progress = Progress(*columns, console=Console(stderr=True, highlight=False), transient=True, redirect_stdout=False)
            progress.start()
            self._stack.callback(progress.stop)
            task = progress.add_task(step, total=total)
            self._hide, self._update = progress.stop, lambda **values: progress.update(task, **values)
        self._update(description=step, completed=done, total=total)

    def hide(self) -> None:
        """End the display before a question or the report is printed."""
        if self._hide is not None:
            self._hide()
            self._hide = self._update = None
