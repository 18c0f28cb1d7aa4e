"""The schedule of table maintenance: compacting small files, deleting files that are not needed, and removing old tombstones.

Maintenance runs between micro-batches, on the pipeline's thread and one table at a time, so never concurrently with a merge.
"""

from __future__ import annotations

from dataclasses import dataclass

from headstream.replicate.settings.config import ReplicateConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The intervals of maintenance.

    Args:
        tombstones_kept_us: Time for which deletions are remembered after they were applied, microseconds; None: unlimited.
        compact_every_us: Interval at which small files are compacted, microseconds; 0: never.
        vacuum_every_us: Interval at which files that no version needs are deleted, microseconds; 0: never.
        vacuum_kept_us: Minimum age of the files to delete, microseconds.
    """

    tombstones_kept_us: int | None
    compact_every_us: int
    vacuum_every_us: int
    vacuum_kept_us: int

    @classmethod
    def of(cls, config: ReplicateConfig) -> Schedule:
        """Return the schedule of a pipeline."""
        return cls(
            tombstones_kept_us=config.tombstones_kept_us,
            compact_every_us=config.compact_every_us,
            vacuum_every_us=config.vacuum_every_us,
            vacuum_kept_us=config.vacuum_kept_us,
        )

    @staticmethod
    def is_due(every_us: int, last_us: int, now_us: int) -> bool:
        """Return whether a step with this interval, last run at `last_us`, is due."""
        return every_us > 0 and now_us - last_us >= every_us
