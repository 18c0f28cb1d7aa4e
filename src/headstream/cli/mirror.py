"""`headstream mirror`: copies topics from one log to another log."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headstream.cli.shared.output import print_object, print_text
from headstream.cli.shared.parameters import Checked, LocalPath, output_option
from headstream.cli.shared.signals import restored_handlers, stop_by_signals
from headstream.core.model.quantities import parse_size_bytes
from headstream.errors import InvalidInputError
from headstream.metrics.output import MetricsOutput

if TYPE_CHECKING:
    from headstream.mirror import MirrorPlan, MirrorStats


def _parse_rate(text: str) -> int:
    size_bytes = parse_size_bytes(text)
    if not size_bytes:
        raise InvalidInputError("the rate must be more than 0 bytes per second")
    return size_bytes


@click.command()
@click.argument("source", metavar="SRC")
@click.argument("target", metavar="DST")
@click.option(
    "--topics", multiple=True, metavar="TOPIC", help="Topic or pattern, for example 'shop/*'; repeatable. All topics by default."
)
@click.option("--once", is_flag=True, help="End after copying all messages that exist at the start.")
@click.option("--dry-run", is_flag=True, help="Show the plan, and copy nothing.")
@click.option("--rate", type=Checked("size", _parse_rate), help="Maximum bytes per second, for example 10MB.")
@click.option(
    "--states",
    type=click.Choice(["keep", "available"]),
    default="keep",
    show_default=True,
    help="keep: copy messages in any state, and set the same state; available: copy only available messages.",
)
@click.option("--metrics", type=LocalPath(directory=False), metavar="FILE", help="Write OpenMetrics to FILE every few seconds.")
@click.option("--metrics-otlp", is_flag=True, help="Send metrics to the OpenTelemetry collector at OTEL_EXPORTER_OTLP_ENDPOINT.")
@click.option("--source-name", metavar="NAME", help="Name of SRC in the header hs.mirror, instead of the log's identity.")
@click.option("--target-name", metavar="NAME", help="Name of DST in the header hs.mirror, instead of the log's identity.")
@output_option
def mirror(
    source: str,
    target: str,
    topics: tuple[str, ...],
    once: bool,
    dry_run: bool,
    rate: int | None,
    states: Any,
    metrics: Path | None,
    metrics_otlp: bool,
    source_name: str | None,
    target_name: str | None,
    output: str,
) -> None:
    """Copy topics from the log SRC to the log DST. SRC and DST are URLs or context names.

    Keys, headers, ids, times and states are kept; missing topics are created. If the command is interrupted, run it again: it
    continues and copies no message twice. Ctrl-C or SIGTERM ends the command after its next checkpoint; a second signal
    ends it immediately, which is safe. Do not run two mirrors of the same logs and topics at the same time.

    Messages that originate in DST are not copied back, so mirrors in both directions do not loop.

    \b
    Examples:
      headstream mirror file:///var/lib/shop headstream://user:password@backup --once
      headstream mirror production backup --topics 'shop/*' --rate 10MB
      headstream mirror production backup --dry-run
    """
    from headstream.connect import connect_plain
    from headstream.mirror import Mirror, MirrorOptions

    options = MirrorOptions(
        topics=topics or ("*",), once=once, bytes_per_s=rate, states=states, source_name=source_name, target_name=target_name
    )
    with ExitStack() as stack:
        one, other = (stack.enter_context(connect_plain(_resolve(name))) for name in (source, target))
        plan = Mirror(one, other, options).plan()
        if dry_run:
            _print_plan(plan, output)
            return
        for line in _plan_lines(plan):
            click.echo(line, err=True)
        total = sum(topic.messages_count for topic in plan.topics) if once else None
        written = MetricsOutput("headstream-mirror", metrics, over_otlp=metrics_otlp)
        stack.callback(written.close)
        options = replace(options, on_progress=_progress(stack, total, written))
        run = Mirror(one, other, options)
        with restored_handlers():
            stop_by_signals(run.stop)
            stats = run.run()
    print_object(_summary(stats), output)


def _resolve(name: str) -> str:
    """Resolve a URL or the name of a context to a URL that includes the password."""
    from headstream.cli.shared.contexts import Contexts, contexts_path
    from headstream.cli.shared.secrets import add_password

    return add_password(name if "://" in name else Contexts(contexts_path()).get(name).to_url())


def _summary(stats: MirrorStats) -> dict[str, Any]:
    members = asdict(stats)
    return {**members, "lag": sum(stats.lag.values()), "behind_s": round(stats.behind_s, 3)}


def _plan_lines(plan: MirrorPlan) -> Iterator[str]:
    for topic in plan.topics:
        action = "create" if topic.is_created else "continue"
        yield f"{action} {topic.topic}: {topic.messages_count} messages in {topic.partitions} partitions"
        yield from (f"  {difference}" for difference in topic.differences)
    yield f"In every topic: {'; '.join(plan.differences)}."


def _print_plan(plan: MirrorPlan, output: str) -> None:
    if output == "table":
        for line in _plan_lines(plan):
            print_text(line)
        return
    topics = [{**asdict(topic), "differences": list(topic.differences)} for topic in plan.topics]
    print_object({"topics": topics, "differences": list(plan.differences)}, output)


def _progress(stack: ExitStack, total: int | None, metrics: MetricsOutput) -> Callable[[MirrorStats], None]:
    """Return a function that shows a mirror's progress on a terminal and writes its metrics."""
    show: Callable[[MirrorStats], None] = _show_on_terminal(stack, total) if sys.stderr.isatty() else lambda _: None

    def report(stats: MirrorStats) -> None:
        show(stats)
        if metrics.is_wanted:
            from headstream.mirror.metrics import describe_mirror

            metrics.write(describe_mirror(stats))

    return report


def _show_on_terminal(stack: ExitStack, total: int | None) -> Callable[[MirrorStats], None]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    progress = stack.enter_context(Progress(*columns, console=Console(stderr=True, highlight=False), transient=True))
    task = progress.add_task("mirroring", total=total)

    def show(stats: MirrorStats) -> None:
        done = stats.copied + stats.found + stats.looped
        lag = sum(stats.lag.values())
        progress.update(task, completed=done, total=total if total is not None else done + lag)

    return show
