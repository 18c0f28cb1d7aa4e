"""Passwords on the command line: typed without being shown, or a line of standard input; never an argument."""

from __future__ import annotations

import os
import sys

import click

from headstream.cli.contexts import CONTEXT_VARIABLE, Context, Contexts, contexts_path

__all__ = ["read_secret", "resolve_url"]


def read_secret(what: str, *, is_new: bool = False) -> str:
    """Return a secret that somebody types, or a line of standard input where nobody can.

    Args:
        what: What it is.
        is_new: Whether it is to be typed twice.

    Raises:
        UsageError: there is none.
    """
    if sys.stdin.isatty():
        secret: str = click.prompt(what, hide_input=True, confirmation_prompt=is_new, err=True)
        return secret
    secret = sys.stdin.readline().rstrip("\r\n")
    if not secret:
        raise click.UsageError(f"{what}: nothing on standard input.")
    return secret


def resolve_url(url: str | None, *, may_ask: bool = True) -> str | None:
    """Return the URL that commands use: the one given, or that of the context in use; its password asked for if need be.

    Args:
        url: That of --url or HEADSTREAM_URL, or None.
        may_ask: Whether there is somebody who can be asked.

    Returns:
        None where nothing is said anywhere.
    """
    if url:
        context = Context.of_url(url) if url.startswith(("headstream:", "http:", "https:", "quic:")) else None
    else:
        contexts = Contexts(contexts_path())
        name = os.environ.get(CONTEXT_VARIABLE) or contexts.current
        context = contexts.get(name) if name else None
    if context is None:
        return url or None
    username = context.username or os.environ.get("HEADSTREAM_USERNAME")
    is_known = context.has_secret or "HEADSTREAM_PASSWORD" in os.environ or not username
    if context.is_server and not is_known and may_ask and sys.stdin.isatty():
        context = Context(context.url, username, read_secret(f"Password of {username}"))
    return context.to_url()
