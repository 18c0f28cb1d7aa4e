"""Campaigns of fault histories: many seeds in turn, until one breaks a guarantee.

    python -m headstream.testing.faulty_files --seeds 1000

fault_histories.py (partitions), log_histories.py (a whole log), damage_histories.py (damaged files, compaction, repair and
readers) and removal_histories.py (marked messages) define the histories and their checks.
"""

from __future__ import annotations

import itertools
import logging

import click

from headstream.errors import HeadstreamError
from headstream.testing.damage_histories import DamageHistory
from headstream.testing.fault_histories import FaultHistory
from headstream.testing.log_histories import LogHistory
from headstream.testing.removal_histories import RemovalHistory
from headstream.testing.seeds import seed_options

__all__ = ["main", "run_history"]


_KINDS = (FaultHistory, LogHistory, DamageHistory, RemovalHistory)


def run_history(seed: int, steps: int = 120, kind: type[FaultHistory | DamageHistory | RemovalHistory] = FaultHistory) -> None:
    """Run one history.

    Args:
        seed: Determines the history.
        steps: Number of steps.
        kind: Histories of partitions only, of a whole log, of damage, or of removals.

    Raises:
        AssertionError: a guarantee was broken; the message includes the seed and the last steps.
    """
    history = kind(seed, steps)
    try:
        history.run()
    except (AssertionError, HeadstreamError, LookupError) as error:
        steps_text = "\n  ".join(history.trail[-40:])
        raise AssertionError(
            f"seed {seed}: {type(error).__name__}: {error}\n  {steps_text}\n"
            f"Again: python -m headstream.testing.faulty_files --seeds 1 --from {seed} --steps {steps}{kind.OPTION}"
        ) from error


@click.command()
@seed_options
@click.option("--steps", type=click.IntRange(1), default=120, show_default=True, help="Steps of each history.")
@click.option("--partitions", is_flag=True, help="Run only histories of partitions; the default is all kinds for each seed.")
@click.option("--damage", is_flag=True, help="Run only histories of damage, compaction and repair.")
@click.option("--removal", is_flag=True, help="Run only histories of marks, holds and removals.")
def main(seeds: int, first: int, steps: int, *, partitions: bool, damage: bool, removal: bool) -> None:
    """Run generated fault histories on a log and its partitions; stops at the first that breaks a guarantee."""
    logger = logging.getLogger("headstream.log")
    logger.disabled = True  # recovery logs thousands of lines
    try:
        wanted = (FaultHistory, partitions), (DamageHistory, damage), (RemovalHistory, removal)
        kinds = [kind for kind, is_wanted in wanted if is_wanted] or _KINDS
        for seed, kind in itertools.product(range(first, first + seeds), kinds):
            run_history(seed, steps, kind)
    except AssertionError as error:
        raise click.ClickException(str(error)) from error
    finally:
        logger.disabled = False
    click.echo(f"{seeds} histories, seeds {first} to {first + seeds - 1}: all passed")


if __name__ == "__main__":
    main()
