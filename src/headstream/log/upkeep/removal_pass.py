"""RemovalPass: removes messages marked for deletion, with their bytes, from one partition's closed segments.

    closed segments -> groups: neighbours that fit into one segment -> groups with messages to remove are rewritten

The remaining messages keep their offsets. As in a compaction, a segment is changed only if data, index and neighbours prove that
it is complete. A damaged segment is not changed but reported; a group neither contains nor spans a damaged segment. Segments
without messages to remove are not read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Final

from headstream.core.model.message import MessageState
from headstream.core.model.removals import Removal
from headstream.errors import CorruptLogError
from headstream.log.partition.closed_reading import PassCancelledError
from headstream.log.partition.closed_segments import Closed, finish_pass, list_closed
from headstream.log.system.files import Files
from headstream.log.upkeep.segment_rewrite import Keep, PassContext, SegmentRewrite, check_whole, groups_of, keep_without

_MARKED: Final = MessageState.MARKED_FOR_DELETION.value
_END: Final = 1 << 62

FindDue = Callable[[int, int], Sequence[int]]


def _has_any(due: Sequence[int], group: list[Closed]) -> bool:
    number = bisect_left(due, group[0].base_offset)
    return number < len(due) and due[number] < group[-1].until_offset


class RemovalPass:
    """One pass over a partition.

    Args:
        find_due: Range of offsets -> ascending offsets to remove; messages not in the state `marked_for_deletion` are kept.
        forget: Called with a segment's due offsets after they are removed.
    """

    def __init__(
        self,
        directory: str,
        files: Files,
        *,
        segment_bytes: int,
        find_due: FindDue,
        forget: Callable[[Sequence[int]], None],
        around: PassContext | None = None,
    ) -> None:
        self._directory = directory
        self._files = files
        self._segment_bytes = segment_bytes
        self._find_due = find_due
        self._forget = forget
        self._context = PassContext() if around is None else around
        self._rewrite = SegmentRewrite(directory, files, self._context)
        self._outcome = Removal()

    def run(self, most_groups: int | None = None) -> Removal:
        """Remove the due messages of a limited number of groups; a damaged segment (CorruptLogError) is not changed."""
        damage: CorruptLogError | None = None
        left_count = 0
        try:
            with self._context.lock:
                self._context.check_wanted()
                finish_pass(self._directory, self._files)
                found = list_closed(self._directory, self._files)
                due = self._find_due(0, _END)
            groups = [group for group in self._groups(found) if _has_any(due, group)]
            done = 0
            for number, group in enumerate(groups):
                left_count = len(groups) - number
                if done == most_groups:
                    return replace(self._outcome, left_count=left_count)
                failure = self._try_to_remove(group)
                damage, done = damage or failure, done + (failure is None)
        except PassCancelledError:
            return replace(self._outcome, left_count=max(left_count, 1))
        if damage is not None:
            raise damage
        return self._outcome

    def _groups(self, found: list[Closed]) -> Iterator[list[Closed]]:
        for fault, run in groupby(found, key=lambda segment: segment.fault):
            yield from groups_of(run, 0 if fault else self._segment_bytes)

    def _try_to_remove(self, group: list[Closed]) -> CorruptLogError | None:
        """Remove the due messages of a group's complete segments; return the damage, if any."""
        try:
            self._remove(group)
        except CorruptLogError as error:
            if len(group) == 1:
                return error
            failures = [self._try_to_remove([segment]) for segment in group]
            return next(filter(None, failures), None)
        return None

    def _remove(self, group: list[Closed]) -> None:
        check_whole(self._directory, group[0])
        if self._is_done(group):
            return
        due: Sequence[int] = ()

        def make_keep() -> Keep:
            nonlocal due
            due = self._due_in(group)
            return keep_without(due, _MARKED)

        made = self._rewrite.run(group, make_keep, is_by_key=all(segment.is_compacted for segment in group))
        removed_bytes = sum(segment.size_bytes for segment in group) - made.segment.size_bytes
        self._outcome += Removal(made.dropped_count, removed_bytes, len(group))
        self._forget(due)  # as of the copy that replaced the group

    def _is_done(self, group: list[Closed]) -> bool:
        """Return whether the due messages are already removed; if so, delete states that remain after a crash."""
        with self._context.lock:
            changes, due = self._context.state_changes(), self._due_in(group)
        keep = keep_without(due, _MARKED)
        for segment in group:
            if any(keep(chunk, 0, group[0].base_offset).dropped_count for chunk in self._rewrite.chunks(segment)):
                return False
        with self._context.lock:
            if self._context.state_changes() == changes:
                self._forget(due)
        return True

    def _due_in(self, group: list[Closed]) -> Sequence[int]:
        return self._find_due(group[0].base_offset, group[-1].until_offset)
