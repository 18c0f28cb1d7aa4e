"""Campaigns: histories of failures with many seeds in turn, until one breaks a guarantee.

    python -m tests.campaigns --list
    python -m tests.campaigns damage --seeds 1-1000

A campaign runs one kind of history once per seed. The seed determines the history, so a history that failed runs again.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

import click

from headstream.errors import HeadstreamError
from tests.support.lean_spark import QUICK, driver_options

__all__ = ["CAMPAIGNS", "Campaign", "History", "main", "run_history"]

_SHOWN_STEPS: Final = 40
_PROGRESS_HISTORIES: Final = 100


class History(Protocol):
    """What a campaign runs per seed. It is made with the seed, and with the number of steps if it has that parameter.

    It may have more attributes: `trail`, a list of its steps as text, which is shown if it fails; `counts`, a Counter of what
    happened in it, which is summed over the campaign; `width`, the number of seeds that it runs at once, from its own on.
    """

    def run(self) -> None:
        """Run it, and raise AssertionError at the first broken guarantee."""


H = TypeVar("H", bound=History)


@dataclass(frozen=True, slots=True)
class Campaign:
    """A row of the table of campaigns.

    Args:
        name: What users type.
        attacks: What fails in its histories.
        module: Module of tests.campaigns that defines its histories.
        kind: The class of its histories.
    """

    name: str
    attacks: str
    module: str
    kind: str

    def load(self) -> type[Any]:
        """Import the class of its histories."""
        found: type[Any] = getattr(importlib.import_module(f"tests.campaigns.{self.module}"), self.kind)
        return found


CAMPAIGNS: Final = (
    Campaign("partitions", "partitions: kills, power failures, full and failing disks", "fault_histories", "FaultHistory"),
    Campaign("log", "a log with topics, states, commits: the same faults", "log_histories", "LogHistory"),
    Campaign("damage", "a compacted partition: altered, truncated, lost files", "damage_histories", "DamageHistory"),
    Campaign("removal", "marks, holds, erasures: the faults of partitions", "removal_histories", "RemovalHistory"),
    Campaign("leases", "workers that share partitions: kills, jumps of the clock", "lease_histories", "LeaseHistory"),
    Campaign("retries", "consumers with on_error: kills, jumps of the clock", "retry_histories", "RetryHistory"),
    Campaign("deliveries", "producers and a group: a killed server, cut connections", "delivery_histories", "DeliveryHistory"),
    Campaign("cancellations", "asyncio consumers: calls cancelled at any time", "cancellation", "CancellationHistory"),
    Campaign("iceberg", "an Iceberg table beside a Delta table: kills, failures", "iceberg_histories", "IcebergHistory"),
    Campaign("iceberg-kills", "the same in a process that is killed; columns change", "iceberg_rounds", "IcebergRoundsHistory"),
    Campaign("iceberg-readers", "the same; DuckDB and Spark read too", "iceberg_rounds", "IcebergReadersHistory"),
    Campaign("vectors", "a table with deletion vectors: kills, other writers", "vector_histories", "VectorHistory"),
    Campaign("debezium", "Debezium from a PostgreSQL: kills of all parts", "debezium_histories", "DebeziumHistory"),
)


def run_history(kind: type[H], seed: int, steps: int | None = None) -> H:
    """Run one history, and return it.

    Args:
        kind: Its class, of one of the campaigns.
        seed: Determines the history.
        steps: Number of steps; None for the class's default.

    Raises:
        AssertionError: a guarantee was broken; the message has the seed, the last steps and the command that repeats it.
    """
    history: H = kind(seed) if steps is None else kind(seed, steps)  # type: ignore[call-arg]
    try:
        history.run()
    except (AssertionError, HeadstreamError, LookupError) as error:
        (name,) = (campaign.name for campaign in CAMPAIGNS if campaign.kind == kind.__name__)
        trail = getattr(history, "trail", [])[-_SHOWN_STEPS:]
        options = f"--seeds {seed}" if steps is None else f"--seeds {seed} --steps {steps}"
        again = f"Again: python -m tests.campaigns {name} {options}"
        raise AssertionError("\n  ".join([f"seed {seed}: {type(error).__name__}: {error}", *trail]) + f"\n{again}") from error
    return history


def _parse_seeds(_context: click.Context, _parameter: click.Parameter, text: str) -> range:
    first, dash, last = text.partition("-")
    if not first.isdecimal() or (dash and not last.isdecimal()) or int(last or first) < int(first):
        raise click.BadParameter("a range of seeds, as 1-1000, or one seed, as 7, is required")
    return range(int(first), int(last or first) + 1)


@click.command()
@click.argument("name", required=False, type=click.Choice([campaign.name for campaign in CAMPAIGNS]))
@click.option("--seeds", default="1-1000", show_default=True, callback=_parse_seeds, help="First and last seed, or one seed.")
@click.option("--steps", type=click.IntRange(1), help="Steps of each history; the default depends on the campaign.")
@click.option("--list", "is_list", is_flag=True, help="List the campaigns.")
def main(name: str | None, seeds: range, steps: int | None, *, is_list: bool) -> None:
    """Run the campaign NAME. It stops at the first history that breaks a guarantee."""
    if is_list:
        for campaign in CAMPAIGNS:
            click.echo(f"{campaign.name:15}{campaign.attacks:60}{campaign.module}.py")
        return
    if name is None:
        raise click.UsageError("NAME is missing; --list lists the campaigns.")
    kind = next(campaign for campaign in CAMPAIGNS if campaign.name == name).load()
    if steps is not None and "steps" not in inspect.signature(kind).parameters:
        raise click.UsageError(f"Histories of {name} have no number of steps.")
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", QUICK)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", driver_options(lean=True))
    counts: Counter[str] = Counter()
    width: int = getattr(kind, "width", 1)
    logger = logging.getLogger("headstream.log")
    logger.disabled = True  # recovery logs thousands of lines
    try:
        for done, seed in zip(range(width, len(seeds) + width, width), seeds[::width], strict=True):
            counts += getattr(run_history(kind, seed, steps), "counts", Counter())
            if done % _PROGRESS_HISTORIES == 0:
                click.echo(f"{done} histories passed", err=True)
    except AssertionError as error:
        raise click.ClickException(str(error)) from error
    finally:
        logger.disabled = False
    summary = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    seeds = range(seeds[0], seeds[::width][-1] + width)
    click.echo(f"{len(seeds)} histories of {name}, seeds {seeds[0]} to {seeds[-1]}: all passed. {summary}".rstrip())
