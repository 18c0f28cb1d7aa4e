"""Output of deliveries: counts by status, and the history of a message in one group or in all groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headstream.cli.shared.output import format_time, print_object, print_objects, print_text
from headstream.core.model.message import StateChange, state_name

if TYPE_CHECKING:
    from headstream.client.client import Client
    from headstream.core.model.delivery_views import GroupDeliveries, MessageStory

COUNT_COLUMNS: Final = (
    *("partition", "pending", "leased", "delayed", "deferred", "poisoned", "open_letters", "oldest_leased", "oldest_poisoned"),
)
STATE_COLUMNS: Final = ("offset", "state", "reason", "by", "changed")
_HISTORY_COLUMNS: Final = ("group", "status", "failures", "worker", "next_attempt", "first_error", "reason", "letter")
ATTEMPT_COLUMNS: Final = ("attempt", "begun", "ended", "worker", "error")


def describe_deliveries(found: GroupDeliveries, form: str) -> dict[str, Any]:
    """Return the members of a group's deliveries. For a table, times are text, and the pause of a running group is omitted."""
    pause = found.pause
    attempts = {"failed_attempts": pause.failed_count, "last_attempts": pause.attempts_count, "pauses": pause.pauses_count}
    state = "running" if not pause.until_us else "paused" if found.now_us < pause.until_us else "on trial"
    times = _times(form, paused_since=pause.begun_us or None, paused_until=pause.until_us or None)
    if form == "table":
        times = {name: value for name, value in times.items() if value}
    partitions = [
        {
            "partition": each.partition,
            "pending": each.pending,
            "leased": each.leased,
            "delayed": each.delayed,
            "deferred": each.deferred,
            "poisoned": each.poisoned,
            "open_letters": each.open_letters,
            **_times(form, oldest_leased=each.oldest_leased_us, oldest_poisoned=each.oldest_poisoned_us),
        }
        for each in found.partitions
    ]
    return {"state": state, **times, **attempts, "partitions": partitions}


def describe_history(found: MessageStory, form: str) -> dict[str, Any]:
    """Return the members of a message's delivery history; times are text if the output is a table."""
    letter = None if found.letter is None else dict(zip(("topic", "partition", "offset"), found.letter, strict=True))
    if form == "table" and found.letter is not None:
        return _describe_steps(found, form) | {"letter": " ".join(map(str, found.letter))}
    return _describe_steps(found, form) | {"letter": letter}


def describe_state(change: StateChange, form: str) -> dict[str, Any]:
    """Return the members of the state of a message that is not available; times are text if the output is a table."""
    when = _times(form, changed=change.changed_us)
    return {"offset": change.offset, "state": state_name(change.state), "reason": change.reason, "by": change.by, **when}


def print_message_states(log: Client, topic: str, partition: int, offset: int, form: str) -> None:
    """Print a message's state with author and reason, and the message's delivery history in each group of its topic."""
    histories = [(group.name, log.message_story(topic, group.name, partition, offset)) for group in log.groups(topic)]
    change = next((change for change in log.states(topic, partition) if change.offset == offset), None)
    nothing = {"offset": offset, "state": "available", "reason": "", "by": "", **_times(form, changed=None)}
    members = nothing if change is None else describe_state(change, form)
    groups = [{"group": name, **describe_history(history, form)} for name, history in histories]
    members = {"topic": topic, "partition": partition, **members}
    if form != "table":
        print_object({**members, "groups": groups}, form)
        return
    print_object({name: value for name, value in members.items() if value not in ("", None)}, form)
    attempts = [{"group": each["group"], **attempt} for each in groups for attempt in each["attempts"]]
    for rows, columns in ((groups, _HISTORY_COLUMNS), (attempts, ("group", *ATTEMPT_COLUMNS))):
        if rows:
            print_text("")
            print_objects(rows, columns, form)


def _describe_steps(found: MessageStory, form: str) -> dict[str, Any]:
    return {
        "partition": found.partition,
        "offset": found.offset,
        "status": found.status.value,
        "failures": found.failures,
        "worker": found.worker,
        **_times(
            form,
            leased=found.leased_us,
            lease_until=found.lease_until_us,
            next_attempt=found.next_attempt_us,
            first_failed=found.first_failed_us,
        ),
        "first_error": found.first_error,
        "reason": found.reason,
        "attempts": [
            {
                "attempt": each.number,
                **_times(form, begun=each.begun_us or None, ended=each.ended_us),
                "worker": each.worker,
                "error": each.error,
            }
            for each in found.attempts
        ],
    }


def _times(form: str, **times: int | None) -> dict[str, Any]:
    if form == "table":
        return {name: "" if time_us is None else format_time(time_us) for name, time_us in times.items()}
    return {f"{name}_us": time_us for name, time_us in times.items()}
