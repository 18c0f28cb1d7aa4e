"""What the commands that run seeded histories share: their options, and errors that say how to run a seed again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

__all__ = ["naming_seed", "run_seeds", "seed_options"]


def seed_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--seeds` and `--from` to a command, which gets them as `seeds` and `first`."""
    first = click.option(
        "--from", "first", type=click.IntRange(0), default=0, show_default=True, help="Seed of the first history."
    )
    count = click.option("--seeds", type=click.IntRange(1), default=1000, show_default=True, help="Number of histories.")
    return count(first(command))


@contextmanager
def naming_seed(seed: int, module: str) -> Iterator[None]:
    """Raise a failed check of the body with its seed, and the command that runs it again.

    Args:
        module: Its module, which runs as a command.
    """
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}\nAgain: python -m {module} --seeds 1 --from {seed}") from error


def run_seeds(run: Callable[[int], Counter[str]], seeds: int, first: int) -> None:
    """Run a history for each seed, and print the sums of what they counted; the first that fails ends the command.

    Args:
        run: Runs the history of a seed, and returns its counts.
        seeds: Number of seeds.
    """
    totals: Counter[str] = Counter()
    for seed in range(first, first + seeds):
        try:
            totals += run(seed)
        except AssertionError as error:
            raise click.ClickException(str(error)) from error
    told = ", ".join(f"{count} {name}" for name, count in sorted(totals.items()))
    click.echo(f"{seeds} histories, seeds {first} to {first + seeds - 1}: all passed. {told}")
