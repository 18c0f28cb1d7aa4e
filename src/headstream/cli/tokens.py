"""`headstream token`: list, show, create, delete."""

from __future__ import annotations

from typing import Any

import click

from headstream.cli.shared.output import format_time, print_object, print_objects
from headstream.cli.shared.parameters import Checked, open_log, output_option, url_option
from headstream.cli.shared.topic_options import parse_age_us
from headstream.errors import NotFoundError

_name_argument = click.argument("name")


@click.group()
def token() -> None:
    """Manage personal access tokens: programs log in with a token instead of your password.

    \b
    Examples:
      headstream token create nightly --expires 30d
      headstream topic list --url headstream://:TOKEN@localhost:8090
    """


@token.command("list")
@url_option
@output_option
def list_tokens(url: str, output: str) -> None:
    """List the names of your tokens; a token itself is shown only when it is created.

    \b
    Example:
      headstream token list
    """
    with open_log(url) as log:
        rows = [_describe(found.name, found.expires_us or None, output) for found in log.server.tokens()]
    print_objects(rows, ("name", "expires"), output)


@token.command()
@_name_argument
@url_option
@output_option
def show(name: str, url: str, output: str) -> None:
    """Show one of your tokens: its name and expiry.

    \b
    Example:
      headstream token show nightly
    """
    with open_log(url) as log:
        found = next((each for each in log.server.tokens() if each.name == name), None)
    if found is None:
        raise NotFoundError(f"there is no token {name!r}", advice="See `headstream token list`")
    print_object(_describe(found.name, found.expires_us or None, output), output)


@token.command()
@_name_argument
@click.option(
    "--expires",
    "expires_in_us",
    type=Checked("age", parse_age_us),
    default="forever",
    show_default=True,
    metavar="90s|30m|12h|7d|forever",
    help="Lifetime of the token, for example 30d.",
)
@url_option
@output_option
def create(name: str, expires_in_us: int | None, url: str, output: str) -> None:
    """Create a token and print it. The token cannot be shown again.

    \b
    Example:
      export HEADSTREAM_TOKEN=$(headstream token create nightly --expires 30d --output json | jq -r .token)
    """
    with open_log(url) as log:
        made = log.server.create_token(name, expires_in_us=expires_in_us)
    print_object({"name": name, "token": made}, output)


@token.command()
@_name_argument
@url_option
@output_option
def delete(name: str, url: str, output: str) -> None:
    """Delete one of your tokens; logins with the token are then rejected.

    \b
    Example:
      headstream token delete nightly
    """
    with open_log(url) as log:
        log.server.delete_token(name)
    print_object({"deleted": name}, output)


def _describe(name: str, expires_us: int | None, form: str) -> dict[str, Any]:
    if form != "table":
        return {"name": name, "expires_us": expires_us}
    return {"name": name, "expires": None if expires_us is None else format_time(expires_us)}
