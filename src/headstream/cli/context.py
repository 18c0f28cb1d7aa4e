"""`headstream context`: list, show, create, update, use, delete."""

from __future__ import annotations

from typing import Any

import click

from headstream.cli.shared.contexts import Context, Contexts, contexts_path
from headstream.cli.shared.output import print_object, print_objects
from headstream.cli.shared.parameters import Checked, output_option
from headstream.cli.shared.secrets import read_secret
from headstream.errors import HeadstreamError


def _complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    try:
        return [name for name, _ in Contexts(contexts_path()).items() if name.startswith(incomplete)]
    except HeadstreamError:
        return []


_name_argument = click.argument("name", shell_complete=_complete_name)
_location_argument = click.argument("location", metavar="URL", type=Checked("url", Context.of_url))
_keep_secret_option = click.option(
    "--keep-secret", is_flag=True, help="Ask for the password (or read it from standard input), and store it."
)


@click.group()
def context() -> None:
    """Manage contexts: named URLs of servers and logs, used instead of --url.

    Commands use the first of these: --url, HEADSTREAM_URL, the context named by HEADSTREAM_CONTEXT, the current context.

    \b
    Examples:
      headstream context create prod headstream://ann@mq.example:8090?tls=true
      headstream context use prod
      headstream topic list
    """


@context.command("list")
@output_option
def list_contexts(output: str) -> None:
    """List all contexts, without secrets.

    \b
    Example:
      headstream context list
    """
    contexts = Contexts(contexts_path())
    rows = [_describe(name, found, contexts.current) for name, found in contexts.items()]
    print_objects(rows, ("name", "url", "username", "secret", "in_use"), output)


@context.command()
@_name_argument
@output_option
def show(name: str, output: str) -> None:
    """Show one context, without its secret.

    \b
    Example:
      headstream context show prod
    """
    contexts = Contexts(contexts_path())
    print_object(_describe(name, contexts.get(name), contexts.current), output)


@context.command()
@_name_argument
@_location_argument
@_keep_secret_option
@output_option
def create(name: str, location: Context, *, keep_secret: bool, output: str) -> None:
    """Store URL as the context NAME; the first context becomes the current context.

    A password or token in URL is stored too, in a file that only you can read. It is safer to omit the secret: commands then
    read it from HEADSTREAM_PASSWORD, or ask for it.

    \b
    Examples:
      headstream context create local file:///var/lib/shop
      headstream context create prod headstream://ann@mq.example:8090
      headstream context create ci headstream://ann@mq.example:8090 --keep-secret < password.txt
    """
    contexts, kept = Contexts(contexts_path()), _with_secret(location, keep_secret)
    contexts.create(name, kept)
    print_object(_describe(name, kept, contexts.current), output)


@context.command()
@_name_argument
@_location_argument
@_keep_secret_option
@output_option
def update(name: str, location: Context, *, keep_secret: bool, output: str) -> None:
    """Change the URL of the context NAME; the stored secret of the old URL is deleted.

    \b
    Example:
      headstream context update prod headstream://ann@mq2.example:8090
    """
    contexts, kept = Contexts(contexts_path()), _with_secret(location, keep_secret)
    contexts.update(name, kept)
    print_object(_describe(name, kept, contexts.current), output)


@context.command()
@_name_argument
@output_option
def use(name: str, output: str) -> None:
    """Make NAME the current context, which commands use without --url.

    \b
    Example:
      headstream context use prod
    """
    contexts = Contexts(contexts_path())
    contexts.use(name)
    print_object(_describe(name, contexts.get(name), contexts.current), output)


@context.command()
@_name_argument
@output_option
def delete(name: str, output: str) -> None:
    """Delete the context NAME and its secret.

    \b
    Example:
      headstream context delete prod
    """
    Contexts(contexts_path()).delete(name)
    print_object({"deleted": name}, output)


def _with_secret(location: Context, keep_secret: bool) -> Context:
    if keep_secret and location.username is not None and location.password is None:
        return Context(location.url, location.username, read_secret(f"Password of {location.username}"))
    return location


def _describe(name: str, found: Context, current: str | None) -> dict[str, Any]:
    secret = ("kept" if found.has_secret else "asked for") if found.is_server else None
    username = "(token)" if found.token is not None else found.username
    return {"name": name, "url": found.url, "username": username, "secret": secret, "in_use": name == current}
