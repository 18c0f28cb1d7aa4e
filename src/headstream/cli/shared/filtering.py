"""The options --where, --on-filter-error and --explain of commands that show messages."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, TypeVar, cast

import click

from headstream.cli.shared.output import print_object
from headstream.cli.shared.parameters import Checked, states_option
from headstream.core.filters.filter import OnFilterError, parse_filter
from headstream.core.model.message import state_name

if TYPE_CHECKING:
    from headstream.client.client import Client

_Function = TypeVar("_Function", bound=Callable[..., Any])


class FilterArguments(TypedDict):
    """The arguments of a poll or a consumer that select messages."""

    states: tuple[str, ...] | None
    where: str | None
    on_filter_error: str


class FilterInput(NamedTuple):
    """The filter options of a command.

    Args:
        on_error: Action for a message to which the filter cannot be applied.
        explains: Whether the command only shows how the filter is evaluated.
        states: The states of the messages to filter; None for all states.
    """

    where: str | None
    on_error: str
    explains: bool
    states: tuple[str, ...] | None = ("available",)

    @property
    def options(self) -> FilterArguments:
        """The arguments of a poll or a consumer."""
        return {"states": self.states, "where": self.where, "on_filter_error": self.on_error}

    def explain(self, log: Client, output: str, topic: str | None = None) -> bool:
        """If --explain is given, show how the filter is evaluated and how much it reads; return whether --explain is given."""
        if self.where is None or not self.explains:
            return False
        plan = asdict(log.explain_filter(self.where, topic, states=self.states, on_filter_error=self.on_error))
        plan |= {name: list(plan[name]) for name in ("headers", "fields", "summarized")}
        counts = plan.pop("segments")
        if counts is not None:
            plan["segments"] = counts["segments_count"]
            plan["segments_skipped"] = counts["skipped_count"]
            plan["segments_read"] = counts["segments_count"] - counts["skipped_count"]
            plan["bytes_read"] = counts["size_bytes"] - counts["skipped_bytes"]
        plan["states"] = "all" if plan["states"] is None else ",".join(map(state_name, plan["states"]))
        print_object(plan, output)
        return True


def filter_options(function: _Function) -> _Function:
    """Add --where, --on-filter-error and --explain; the command receives them as `chosen`, a FilterInput."""

    @click.option(
        "--where",
        type=Checked("filter", lambda text: parse_filter(text).text),
        metavar="FILTER",
        help="Select only messages that match a filter such as \"attempt >= 3 AND source IN ('web', 'app')\". A filter "
        "can use headers and the fields _offset, _timestamp, _state, _id, _key and _size.",
    )
    @click.option(
        "--on-filter-error",
        type=click.Choice([each.value for each in OnFilterError]),
        default=OnFilterError.SKIP.value,
        show_default=True,
        help="Action for a message to which the filter cannot be applied, for example if it compares a number with a string.",
    )
    @click.option("--explain", is_flag=True, help="Show how and where the filter is evaluated, and do nothing else.")
    @functools.wraps(function)
    def with_filter(where: str | None, on_filter_error: str, explain: bool, **options: Any) -> Any:
        if explain and where is None:
            raise click.UsageError("--explain requires --where.")
        return function(chosen=FilterInput(where, on_filter_error, explain), **options)

    return cast("_Function", with_filter)


def choice_options(function: _Function) -> _Function:
    """Add --states and the options of filter_options(); the command receives them as `chosen`."""

    @states_option
    @filter_options
    @functools.wraps(function)
    def with_states(states: tuple[str, ...] | None, chosen: FilterInput, **options: Any) -> Any:
        return function(chosen=chosen._replace(states=states), **options)

    return cast("_Function", with_states)
