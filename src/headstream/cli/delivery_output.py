"""How the commands of groups print deliveries: counts by status, and the story of one message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headstream.cli.output import format_time

if TYPE_CHECKING:
    from headstream.model.delivery_views import GroupDeliveries, MessageStory

__all__ = ["ATTEMPT_COLUMNS", "COUNT_COLUMNS", "describe_deliveries", "describe_story"]

COUNT_COLUMNS: Final = (
    *("partition", "pending", "leased", "delayed", "deferred", "poisoned", "open_letters", "oldest_leased", "oldest_poisoned"),
)
ATTEMPT_COLUMNS: Final = ("attempt", "begun", "ended", "worker", "error")


def describe_deliveries(found: GroupDeliveries, form: str) -> dict[str, Any]:
    """Return the members of a group's deliveries; a table has times as text, and no pause of a group that runs.

    Args:
        found: The deliveries.
        form: table, json or jsonl.
    """
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


def describe_story(found: MessageStory, form: str) -> dict[str, Any]:
    """Return the members of a message's story.

    Args:
        found: The story.
        form: table, json or jsonl; a table has times as text.
    """
    letter = None if found.letter is None else dict(zip(("topic", "partition", "offset"), found.letter, strict=True))
    if form == "table" and found.letter is not None:
        return _story(found, form) | {"letter": " ".join(map(str, found.letter))}
    return _story(found, form) | {"letter": letter}


def _story(found: MessageStory, form: str) -> dict[str, Any]:
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
