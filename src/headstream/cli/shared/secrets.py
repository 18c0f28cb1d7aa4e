"""Passwords on the command line: typed without echo or read from a line of standard input, never passed as an argument."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from headstream.cli.shared.contexts import CONTEXT_VARIABLE, Context, Contexts, contexts_path

_WITH_LOGIN: Final = ("headstream:", "http:", "https:", "kafka:", "quic:")


def read_secret(label: str, *, is_new: bool = False) -> str:
    """Ask for a secret (twice if `is_new`), or, without a terminal, read a line of standard input; UsageError if it is empty."""
    if sys.stdin.isatty():
        secret: str = click.prompt(label, hide_input=True, confirmation_prompt=is_new, err=True)
        return secret
    secret = sys.stdin.readline().rstrip("\r\n")
    if not secret:
        raise click.UsageError(f"{label}: standard input is empty.")
    return secret


def resolve_url(url: str | None) -> str | None:
    """Return the given URL, or the current context's URL with the stored credentials; None if there is neither."""
    if url:
        return url
    contexts = Contexts(contexts_path())
    name = os.environ.get(CONTEXT_VARIABLE) or contexts.current
    return contexts.get(name).to_url() if name else None


def add_password(url: str) -> str:
    """Add the password to a URL of resolve_url(); on a terminal, ask for a missing password.

    Call this after all other arguments are checked, because an invalid command must not ask for a password.
    """
    if not url.startswith(_WITH_LOGIN):
        return url
    context = Context.of_url(url)
    username = context.username or os.environ.get("HEADSTREAM_USERNAME")
    is_known = context.has_secret or "HEADSTREAM_PASSWORD" in os.environ or not username
    if context.is_server and not is_known and sys.stdin.isatty():
        return Context(context.url, username, read_secret(f"Password of {username}")).to_url()
    return context.to_url()
