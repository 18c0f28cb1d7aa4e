"""MarkedRemoval: removes messages marked for deletion from the disk after their topic's grace.

A mark can be reverted until its message is removed, which happens within the grace. To rewrite a segment once for many marks, a
round starts shortly before the grace of the oldest mark ends, and includes all marks whose grace ends within the next hour (for a
shorter grace: within an eighth of the grace). If a marked message is in the newest segment, a new segment is started first.

A topic with compaction is compacted instead, so that a removed message still replaces older messages with its key. A topic under
legal hold is not changed. A failed pass changes nothing, is logged (logger `headstream.log`), and is retried after an hour, or
after a minute if the operating system reported an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Final

from headstream.core.model.removals import Removal
from headstream.core.model.topology import check_legal_hold
from headstream.errors import HeadstreamError
from headstream.log.catalog.catalog import Catalog, find_topic
from headstream.log.catalog.records import TopicRecord
from headstream.log.catalog.state_records import marked_before, marked_with_reason, oldest_marks
from headstream.log.segments.layout import base_offsets
from headstream.log.upkeep.compaction import Compaction
from headstream.log.upkeep.job import LONG_PAUSE_US, goes_on, retry_time_us
from headstream.log.upkeep.removal_pass import FindDue, RemovalPass
from headstream.log.upkeep.segment_rewrite import PassContext

if TYPE_CHECKING:
    from headstream.log.access import LogAccess

_LEAD_US: Final = 5 * 60 * 1_000_000
_LEAD_PART: Final = 16
"""A pass begins _LEAD_US before the oldest mark's grace ends, or grace / _LEAD_PART before the end if that is less."""
_BATCH_US: Final = 3600 * 1_000_000
_BATCH_PART: Final = 8
"""A pass includes the marks whose grace ends within _BATCH_US, or within grace / _BATCH_PART if that is less."""
_END: Final = 1 << 62


def due_before_us(grace_us: int, now_us: int) -> int:
    """Return the time before which messages must be marked for a pass that starts now to remove them."""
    return now_us - grace_us + min(_BATCH_US, grace_us // _BATCH_PART) + 1


class MarkedRemoval:
    """Removes marked messages of a log's topics: in the background after their grace, or on request."""

    interval_s: ClassVar[float] = 10.0

    def __init__(self, log: LogAccess, clock_us: Callable[[], int]) -> None:
        self._log = log
        self._clock_us = clock_us
        self._compaction = Compaction(log, clock_us)
        self._next: tuple[int, int] | None = None  # the catalog's changes, and the time at which the next mark is due
        self._not_before_us: dict[tuple[int, int], int] = {}

    def apply(self) -> int:
        """Remove the messages whose grace has ended; return their number."""
        removed = 0
        with suppress(HeadstreamError):
            catalog = self._log.catalog()
            if catalog is None:
                return 0
            changes, now_us = catalog.changes(), self._clock_us()
            if self._next is not None and self._next[0] == changes and now_us < self._next[1]:
                return 0
            next_us = now_us + LONG_PAUSE_US
            for topic_number, number, marked_us in oldest_marks(catalog):
                topic = find_topic(self._log.snapshot(), topic_number)
                grace_us = None if topic is None else topic.options.deletion_grace_us
                if topic is None or grace_us is None or topic.options.legal_hold:
                    continue
                begin_us = marked_us + grace_us - min(_LEAD_US, grace_us // _LEAD_PART)
                begin_us = max(begin_us, self._not_before_us.get((topic_number, number), 0))
                if now_us < begin_us:
                    next_us = min(next_us, begin_us)
                elif not self._log.is_closing:
                    removed += self._apply(catalog, topic, number, due_before_us(grace_us, now_us))
            self._next = changes, next_us  # after a pass, the catalog has changed, or a time for the retry is set
        return removed

    def _apply(self, catalog: Catalog, topic: TopicRecord, number: int, before_us: int) -> int:
        try:
            removed = self._remove(topic, number, partial(marked_before, catalog, topic.number, number, before_us), None)
            return removed.removed_count
        except HeadstreamError as error:
            what = f"the removal of marked messages of {topic.name} partition {number}, which remain after their grace period,"
            self._not_before_us[topic.number, number] = retry_time_us(what, error, self._clock_us())
            return 0

    def remove_now(self, topic: TopicRecord, number: int, reason: str, most_groups: int | None = None) -> Removal:
        """Remove the messages of a partition that were marked for deletion with a reason, regardless of their grace.

        Args:
            most_groups: Maximum number of segment groups (neighbours that fit into one segment) to process; None: all.

        Raises:
            LegalHoldError: the topic is under legal hold; nothing is removed.
            CorruptLogError: a segment is damaged; its messages are kept.
        """
        check_legal_hold(topic.name, topic.options.legal_hold)
        catalog = self._log.catalog()
        assert catalog is not None
        return self._remove(topic, number, partial(marked_with_reason, catalog, topic.number, number, reason), most_groups)

    def _remove(self, topic: TopicRecord, number: int, find_due: FindDue, most_groups: int | None) -> Removal:
        log = self._log
        directory = log.partition_directory(topic, number)

        def forget(offsets: Sequence[int]) -> None:
            log.note_removed(topic, number)
            log.states.forget_marked(topic, number, offsets)

        with log.passing:
            with log.administration:
                if not goes_on(log, topic):
                    return Removal(left_count=1)
                due = find_due(0, _END)
                if due:
                    partition = log.partition(topic, number)  # opened later, it would remove the new files as leftovers
                    bases = base_offsets(log.files.list_names(directory) or [])
                    if bases and due[-1] >= bases[-1]:
                        partition.roll()
            context = PassContext(log.administration, lambda: goes_on(log, topic), lambda: log.states.writes_count)
            if topic.options.compaction_delay_us is not None and due:
                done = self._compaction.compact_holding(topic, number, due)
                removal = Removal(done.dropped_count, 0, 0, 0 if done.is_whole else 1)
                log.count_removal(removal)
                return removal
            removal = RemovalPass(
                directory, log.files, segment_bytes=log.segment_bytes, find_due=find_due, forget=forget, around=context
            ).run(most_groups)
            log.count_removal(removal)
            return removal
