"""How often tables are cared for: small files put together, files that no version needs deleted, deletions forgotten.

It is done between micro-batches, in the pipeline's own turn and one table at a time, so that it never meets a merge.
"""

from __future__ import annotations

from dataclasses import dataclass

from headstream.spark.replicate.config import ReplicateConfig

__all__ = ["Schedule"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What is done how often.

    Args:
        tombstones_kept_us: How long deletions are remembered after they were applied, microseconds; None for ever.
        compact_every_us: How often small files are put together; 0 for never.
        vacuum_every_us: How often files that no version needs are deleted; 0 for never.
        vacuum_kept_us: How old those files must be.
    """

    tombstones_kept_us: int | None
    compact_every_us: int
    vacuum_every_us: int
    vacuum_kept_us: int

    @classmethod
    def of(cls, config: ReplicateConfig) -> Schedule:
        """Return that of a pipeline."""
        return cls(
            tombstones_kept_us=config.tombstones_kept_us,
            compact_every_us=config.compact_every_us,
            vacuum_every_us=config.vacuum_every_us,
            vacuum_kept_us=config.vacuum_kept_us,
        )

    @staticmethod
    def is_due(every_us: int, last_us: int, now_us: int) -> bool:
        """Return whether what is done every so often, and was done last at a time, is to be done now."""
        return every_us > 0 and now_us - last_us >= every_us
