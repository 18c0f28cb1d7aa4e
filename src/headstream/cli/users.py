"""`headstream user`: list, show, create, update, permissions, password, delete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from headstream.cli.shared.confirmation import confirm, yes_option
from headstream.cli.shared.output import format_time, print_object, print_objects
from headstream.cli.shared.parameters import Checked, open_log, output_option, url_option
from headstream.cli.shared.rights import RIGHTS_HELP, Grant, build_permissions, format_permissions, parse_grant
from headstream.cli.shared.secrets import read_secret

if TYPE_CHECKING:
    from headstream.core.wire.commands.users import User

_name_argument = click.argument("name")
_allow_option = click.option(
    "--allow", type=Checked("grant", parse_grant), multiple=True, metavar="[PLACE=]RIGHT,...", help=RIGHTS_HELP
)


@click.group()
def user() -> None:
    """Manage the users of a server, and their permissions.

    \b
    Examples:
      headstream user create ann --allow poll_messages,send_messages
      headstream user list
    """


@user.command("list")
@url_option
@output_option
def list_users(url: str, output: str) -> None:
    """List all users.

    \b
    Example:
      headstream user list
    """
    with open_log(url) as log:
        rows = [_describe(found, output) for found in log.server.users()]
    print_objects(rows, ("name", "id", "active", "created"), output)


@user.command()
@_name_argument
@url_option
@output_option
def show(name: str, url: str, output: str) -> None:
    """Show one user, with permissions.

    \b
    Example:
      headstream user show ann
    """
    with open_log(url) as log:
        found = log.server.user(name)
        rights = format_permissions(found.permissions, log)
    print_object({**_describe(found, output), "rights": rights}, output)


@user.command()
@_name_argument
@_allow_option
@click.option("--inactive", is_flag=True, help="Create the user without the right to log in.")
@url_option
@output_option
def create(name: str, allow: tuple[Grant, ...], *, inactive: bool, url: str, output: str) -> None:
    """Create a user; the command asks for the password, or reads it from standard input.

    \b
    Examples:
      headstream user create ann --allow all
      headstream user create reader --allow shop=read_stream,read_topics,poll_messages < password.txt
      headstream user create loader --allow shop/orders=read_topic,send_messages < password.txt
    """
    with open_log(url) as log:
        permissions = build_permissions(log, allow)  # an unknown stream or topic fails before a password is typed
        password = read_secret(f"Password of {name}", is_new=True)
        found = log.server.create_user(name, password, permissions=permissions, is_active=not inactive)
        rights = format_permissions(found.permissions, log)
    print_object({**_describe(found, output), "rights": rights}, output)


@user.command()
@_name_argument
@click.option("--name", "new_name", metavar="NAME", help="New name of the user.")
@click.option("--active/--inactive", "is_active", default=None, help="Allow or forbid logins of the user.")
@url_option
@output_option
def update(name: str, new_name: str | None, *, is_active: bool | None, url: str, output: str) -> None:
    """Rename a user, or allow or forbid the user's logins.

    \b
    Example:
      headstream user update ann --inactive
    """
    if new_name is None and is_active is None:
        raise click.UsageError("Nothing to change: set --name, --active or --inactive.")
    with open_log(url) as log:
        log.server.update_user(name, username=new_name, is_active=is_active)
        print_object(_describe(log.server.user(new_name or name), output), output)


@user.command()
@_name_argument
@_allow_option
@url_option
@output_option
def permissions(name: str, allow: tuple[Grant, ...], url: str, output: str) -> None:
    """Replace a user's permissions; without --allow, all permissions are removed.

    \b
    Example:
      headstream user permissions ann --allow read_streams,read_topics --allow shop/orders=all
    """
    with open_log(url) as log:
        log.server.change_permissions(name, build_permissions(log, allow))
        print_object({"name": name, "rights": format_permissions(log.server.user(name).permissions, log)}, output)


@user.command()
@_name_argument
@url_option
@output_option
def password(name: str, url: str, output: str) -> None:
    """Change a user's password; the command asks for the old and the new password, or reads them from standard input, one per
    line.

    \b
    Example:
      headstream user password ann
    """
    with open_log(url) as log:
        log.server.user(name)  # an unknown name fails before a password is typed
        current = read_secret(f"Password of {name}")
        new = read_secret(f"New password of {name}", is_new=True)
        log.server.change_password(name, current, new)
    print_object({"changed": name}, output)


@user.command()
@_name_argument
@yes_option
@url_option
@output_option
def delete(name: str, yes: bool, url: str, output: str) -> None:
    """Delete a user and the user's tokens.

    \b
    Example:
      headstream user delete ann --yes
    """
    with open_log(url) as log:
        found = log.server.user(name)
        confirm(f"Delete user {found.username} and the user's tokens", yes=yes)
        log.server.delete_user(name)
    print_object({"deleted": found.username}, output)


def _describe(found: User, form: str) -> dict[str, Any]:
    created: dict[str, Any] = {"created_us": found.created_us}
    if form == "table":
        created = {"created": format_time(found.created_us)}
    return {"name": found.username, "id": found.id, "active": found.status.name == "ACTIVE", **created}
