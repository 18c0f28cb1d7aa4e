"""`headstream backup`: a complete copy of a log while it is being written."""

from __future__ import annotations

import json
import os
from urllib.parse import unquote, urlsplit

import click

from headstream.cli.shared.output import escape, print_text
from headstream.cli.shared.parameters import output_option


@click.command()
@click.argument("places", nargs=-1, required=True, metavar="[DIR] TARGET")
@click.option("--url", envvar="HEADSTREAM_URL", show_envvar=True, metavar="URL", help="URL of the log, instead of DIR.")
@click.option("--keep-identity", is_flag=True, help="Copy the identity too, so that the log's checkpoints are valid.")
@output_option
def backup(places: tuple[str, ...], url: str | None, *, keep_identity: bool, output: str) -> None:
    """Copy the log in DIR to TARGET, a missing or empty directory, while other processes read and write the log.

    The copy contains everything acknowledged before the command started: messages, topics, states, consumer offsets.
    The copy gets a new identity, so Spark rejects a checkpoint of the log for the copy, and vice versa.
    Use --keep-identity for a copy that replaces a lost log.

    \b
    Examples:
      headstream backup /var/lib/shop /mnt/backup/shop-monday
      headstream verify /mnt/backup/shop-monday
    """
    import uuid

    from headstream.log.checks.backup import Backup
    from headstream.log.system.files import OsFiles

    if len(places) > 2:
        raise click.UsageError("Too many arguments: specify DIR and TARGET.")
    root, target = places[0] if len(places) == 2 else _directory_of(url), os.path.realpath(places[-1])
    size_bytes = Backup(os.path.realpath(root), target, OsFiles()).run(None if keep_identity else str(uuid.uuid4()))
    if output == "table":
        print_text(f"copied {size_bytes:,} bytes of messages to {escape(target)}")
    else:
        print_text(json.dumps({"target": target, "size_bytes": size_bytes}, ensure_ascii=False))


def _directory_of(url: str | None) -> str:
    if not url:
        raise click.UsageError("No log specified: specify DIR and TARGET, or --url and TARGET, or set HEADSTREAM_URL.")
    parts = urlsplit(url)
    if parts.scheme != "file" or parts.netloc not in ("", "localhost"):
        raise click.UsageError(f"Only a log in a directory can be copied, not {parts.scheme}://: set DIR or file:///directory.")
    return unquote(parts.path)
