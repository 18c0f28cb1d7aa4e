"""`headstream ping`, `me`, `stats`, `snapshot`, `client`: requests about a server."""

from __future__ import annotations

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headstream.cli.shared.output import format_time, print_object, print_objects
from headstream.cli.shared.parameters import open_log, output_option, url_option

if TYPE_CHECKING:
    from headstream.core.wire.commands.system import Client, ClientDetails


@click.command()
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="Number of pings.")
@url_option
@output_option
def ping(count: int, url: str, output: str) -> None:
    """Check that a server responds, and measure the latency.

    \b
    Example:
      headstream ping --count 5
    """
    with open_log(url) as log:
        rows = [{"server": log.server.place, "milliseconds": round(log.server.ping(), 3)} for _ in range(count)]
    print_objects(rows, ("server", "milliseconds"), output)


@click.command()
@url_option
@output_option
def me(url: str, output: str) -> None:
    """Show the logged-in user and, except over HTTP, the connection.

    \b
    Example:
      headstream me
    """
    with open_log(url) as log:
        found = log.server.me()
        user = log.server.user(found.user_id)
    print_object({**_details(found), "username": user.username}, output)


@click.command()
@url_option
@output_option
def stats(url: str, output: str) -> None:
    """Show a server's load, memory, and topic, message and group counts; for a Kafka cluster, show only the counts.

    \b
    Example:
      headstream stats --output json
    """
    with open_log(url) as log:
        if url.startswith("kafka:"):
            print_object(asdict(log.cluster_stats()), output)
            return
        found = log.server.stats()
    members: dict[str, Any] = {field.name: getattr(found, field.name) for field in fields(found) if field.name != "caches"}
    if output == "table":
        members["start_time_us"] = format_time(found.start_time_us)
    print_object(members, output)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@url_option
@output_option
def snapshot(file: Path, url: str, output: str) -> None:
    """Write a server's settings, load and processes to FILE, a ZIP archive for problem reports.

    \b
    Example:
      headstream snapshot server.zip
    """
    with open_log(url) as log:
        archive = log.server.snapshot()
    file.write_bytes(archive)
    print_object({"file": str(file), "size_bytes": len(archive)}, output)


@click.group()
def client() -> None:
    """Show the connections to a server; a program can have several connections.

    \b
    Example:
      headstream client list
    """


@client.command("list")
@url_option
@output_option
def list_clients(url: str, output: str) -> None:
    """List all connections.

    \b
    Example:
      headstream client list
    """
    with open_log(url) as log:
        names = {user.id: user.username for user in log.server.users()}
        rows = [{**_summary(found), "username": names.get(found.user_id)} for found in log.server.clients()]
    print_objects(rows, ("id", "username", "transport", "address", "groups_count"), output)


@client.command()
@click.argument("number", metavar="ID", type=click.IntRange(1, (1 << 32) - 1))
@url_option
@output_option
def show(number: int, url: str, output: str) -> None:
    """Show one connection, and the groups it has joined.

    \b
    Example:
      headstream client show 1731904563
    """
    with open_log(url) as log:
        print_object(_details(log.server.client(number)), output)


def _summary(found: Client) -> dict[str, Any]:
    return {
        "id": found.client_id,
        "user_id": found.user_id or None,
        "transport": found.transport.name.lower(),
        "address": found.address,
        "groups_count": found.groups_count,
    }


def _details(found: ClientDetails) -> dict[str, Any]:
    groups = [f"{group.stream_id}/{group.topic_id}/{group.group_id}" for group in found.groups]
    return {
        "id": found.client_id,
        "user_id": found.user_id or None,
        "transport": found.transport.name.lower(),
        "address": found.address,
        "groups": groups,
    }
