"""`headstream verify`: checks that all stored data is intact; with --repair, makes safe repairs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import click

from headstream.cli.shared.output import escape, print_objects, print_text
from headstream.cli.shared.parameters import output_option

if TYPE_CHECKING:
    from headstream.log.system.findings import LogFinding

_MEMBERS: Final = ("from_offset", "until_offset", "from_byte", "until_byte")


@click.command()
@click.argument("directory", required=False, metavar="[DIR]")
@click.option("--url", envvar="HEADSTREAM_URL", show_envvar=True, metavar="URL", help="URL of the log, instead of DIR.")
@click.option("--repair", is_flag=True, help="Lock the log for writing, make the safe repairs, and check again; deletes nothing.")
@click.option("--accept-loss", is_flag=True, help="With --repair: create missing partition directories without messages.")
@output_option
@click.pass_context
def verify(context: click.Context, directory: str | None, url: str | None, repair: bool, accept_loss: bool, output: str) -> None:
    """Check the log in DIR: its marker, catalog and directories, every index entry, and the checksums of every send and payload.

    Without --repair, the command only reads, and can run while the log is in use. Each finding has a location, an
    explanation and advice. Notes are not damage: they report files left by a crash or renamed by a recovery.

    Exit code: 0 intact, 1 damaged, 2 misuse.

    \b
    Examples:
      headstream verify /var/lib/shop
      headstream verify --url file:///var/lib/shop --output json
      headstream verify /var/lib/shop --repair
      headstream verify /var/lib/shop --repair --accept-loss
    """
    from headstream.errors import NotALogError
    from headstream.log.checks.repair import repair_log
    from headstream.log.checks.verification import Verification
    from headstream.log.system.files import OsFiles

    if accept_loss and not repair:
        raise click.UsageError("--accept-loss requires --repair.", context)
    root = _root(directory, url)
    try:
        verification = Verification(root, OsFiles())
    except NotALogError as error:
        raise click.UsageError(str(error), context) from error
    actions = []
    if repair:
        actions = repair_log(root, OsFiles(), accept_loss=accept_loss)
        if output == "table":
            for action in actions:
                print_text(f"repaired  {escape(action.path)}\n  {escape(action.what)}")
    with _progress(verification.size_bytes) as on_bytes:
        found = list(verification.run(on_bytes))
    _show([_describe(finding) for finding in found], [asdict(action) for action in actions], output)
    if any(finding.is_damage for finding in found):
        context.exit(1)


def _root(directory: str | None, url: str | None) -> str:
    if directory is not None:
        return directory
    if not url:
        raise click.UsageError("No log specified: specify DIR or --url, or set HEADSTREAM_URL.")
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise click.UsageError(f"Only a log in a directory can be verified, not {parts.scheme}://: set DIR or file:///directory.")
    return unquote(parts.path)


def _describe(finding: LogFinding) -> dict[str, Any]:
    members = asdict(finding)
    return {"finding": "damage" if members.pop("is_damage") else "note", **members}


def _show(findings: list[dict[str, Any]], actions: list[dict[str, Any]], form: str) -> None:
    if form != "table":
        print_objects([*({"finding": "repaired", **action} for action in actions), *findings], (), form)
        return
    for finding in findings:
        where = finding["path"]
        if finding["topic"] is not None:
            where = f"{finding['topic']}" + (f", partition {finding['partition']}" if finding["partition"] else "") + f": {where}"
        print_text(f"{finding['finding']:<8}  {escape(where + _span(finding))}")
        print_text(f"  {escape(finding['what'])}")
        print_text(f"  {escape(finding['advice'])}")
    damage = sum(finding["finding"] == "damage" for finding in findings)
    print_text(f"{damage} damaged, {len(findings) - damage} notes" if findings else "intact: nothing is damaged")


def _span(finding: dict[str, Any]) -> str:
    from_offset, until_offset, from_byte, until_byte = (finding[name] for name in _MEMBERS)
    text = ""
    if from_offset is not None:
        end = "the end" if until_offset is None else until_offset - 1
        text += f", offset {from_offset}" if end == from_offset else f", offsets {from_offset} to {end}"
    if from_byte is not None:
        text += f", bytes {from_byte} to {until_byte - 1}" if until_byte > from_byte else ""
    return text


@contextmanager
def _progress(size_bytes: Callable[[], int]) -> Iterator[Callable[[int], None]]:
    """Yield a callback for the number of checked bytes, which shows a progress bar on a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("verifying", total=size_bytes())
        yield lambda count: progress.advance(task, count)
