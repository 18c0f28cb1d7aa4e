"""Confirmation: what cannot be undone is asked for on a terminal, and needs --yes elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

__all__ = ["confirm", "describe_loss", "yes_option"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def yes_option(function: _Function) -> _Function:
    """Add --yes, which confirms beforehand."""
    return click.option("--yes", is_flag=True, help="Do it without asking; needed where standard input is no terminal.")(function)


def describe_loss(messages: int, size_bytes: int) -> str:
    """Return what would be gone, as `1,234 messages (5.6 MB)`.

    Args:
        messages: How many.
        size_bytes: Their bytes on disk.
    """
    from rich.filesize import decimal

    return f"{messages:,} message{'s' * (messages != 1)} ({decimal(size_bytes)})"


def confirm(action: str, *, yes: bool) -> None:
    """Go on only if a person or --yes says so.

    Args:
        action: What would be done, as `Delete topic shop/orders with 5 messages (1.2 kB)`.
        yes: Whether --yes was given.

    Raises:
        click.UsageError: standard input is no terminal, and --yes was not given; nothing was done.
        click.Abort: the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError(f"{action}? This cannot be undone: add --yes to do it without a terminal.")
    click.confirm(f"{action}? This cannot be undone.", abort=True, err=True)
