"""`headstream completion`: a shell script that completes commands, options, stream names and topic names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from headstream.cli.shared.output import print_text


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script for SHELL that completes commands, options, stream names and topic names.

    \b
    Examples:
      headstream completion bash >> ~/.bashrc
      headstream completion zsh >> ~/.zshrc
      headstream completion fish > ~/.config/fish/completions/headstream.fish
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"click does not support {shell}.")
    print_text(kind(context.find_root().command, {}, "headstream", "_HEADSTREAM_COMPLETE").source())
