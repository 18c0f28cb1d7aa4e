"""Confirmation of irreversible commands: a question on a terminal, or the option --yes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., Any])


def yes_option(function: _Function) -> _Function:
    """Add --yes, which confirms in advance."""
    return click.option("--yes", is_flag=True, help="Skip the confirmation; required if standard input is not a terminal.")(
        function
    )


def describe_loss(messages: int, size_bytes: int) -> str:
    """Describe the content that a deletion removes, for example `1,234 messages (5.6 MB)`."""
    from rich.filesize import decimal

    return f"{messages:,} message{'s' * (messages != 1)} ({decimal(size_bytes)})"


def confirm(action: str, *, yes: bool) -> None:
    """Return if the user or --yes confirms the action; otherwise end the program with exit code 1.

    Args:
        action: For example `Delete topic shop/orders with 5 messages (1.2 kB)`.

    Raises:
        click.UsageError: standard input is not a terminal, and --yes is missing.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{action}? This cannot be undone: add --yes to confirm without a terminal.")
    if not click.confirm(f"{action}? This cannot be undone.", err=True):
        click.echo("Nothing was changed.", err=True)
        raise click.exceptions.Exit(1)
