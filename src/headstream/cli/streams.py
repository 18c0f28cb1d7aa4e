"""`headstream stream`: list, show, create, update, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headstream.cli.shared.confirmation import confirm, describe_loss, yes_option
from headstream.cli.shared.output import format_time, print_object, print_objects
from headstream.cli.shared.parameters import Checked, open_log, output_option, stream_argument, url_option, warn_missing_log
from headstream.core.model.identifiers import check_name

if TYPE_CHECKING:
    from headstream.core.model.topology import Stream


@click.group()
def stream() -> None:
    """Manage streams, the namespaces of topics.

    \b
    Examples:
      headstream stream create shop
      headstream stream list --output json
    """


@stream.command("list")
@url_option
@output_option
def list_streams(url: str, output: str) -> None:
    """List all streams.

    \b
    Example:
      headstream stream list
    """
    with open_log(url) as log:
        rows = [_describe(found, output) for found in log.streams()]
        warn_missing_log(log)
    print_objects(rows, ("name", "id", "topics", "created"), output)


@stream.command()
@stream_argument
@url_option
@output_option
def show(stream: str, url: str, output: str) -> None:
    """Show one stream.

    \b
    Example:
      headstream stream show shop
    """
    with open_log(url) as log:
        print_object(_describe(log.stream(stream), output), output)


@stream.command()
@stream_argument
@url_option
@output_option
def create(stream: str, url: str, output: str) -> None:
    """Create a stream; `topic create` also creates a missing stream.

    \b
    Example:
      headstream stream create shop
    """
    with open_log(url) as log:
        print_object(_describe(log.create_stream(stream), output), output)


@stream.command()
@stream_argument
@click.option("--name", required=True, type=Checked("name", lambda text: check_name(text, "stream")), help="New name (unique).")
@url_option
@output_option
def update(stream: str, name: str, url: str, output: str) -> None:
    """Rename a stream; programs that use the old name get an error.

    \b
    Example:
      headstream stream update shop --name store
    """
    with open_log(url) as log:
        print_object(_describe(log.rename_stream(stream, name), output), output)


@stream.command()
@stream_argument
@yes_option
@url_option
@output_option
def delete(stream: str, yes: bool, url: str, output: str) -> None:
    """Delete a stream with all its topics and messages, immediately and permanently.

    \b
    Example:
      headstream stream delete shop --yes
    """
    with open_log(url) as log:
        found = log.stream(stream)
        topics = [log.topic(f"{found.name}/{name}") for name in found.topics]
        loss = describe_loss(sum(topic.messages_count for topic in topics), sum(topic.size_bytes for topic in topics))
        confirm(f"Delete stream {found.name} with {len(topics)} topic{'s' * (len(topics) != 1)} and {loss}", yes=yes)
        log.delete_stream(stream)
    print_object({"deleted": found.name}, output)


def _describe(found: Stream, form: str) -> dict[str, Any]:
    created: dict[str, Any] = {"created_us": found.created_us}
    if form == "table":
        created = {"created": format_time(found.created_us)}
    return {"name": found.name, "id": found.id, "topics": list(found.topics), **created}
