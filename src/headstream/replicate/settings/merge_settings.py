"""Settings for merging changes into tables by rewriting files or with deletion vectors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from headstream.errors import InvalidOptionError

MergeStrategy: TypeAlias = Literal["auto", "rewrite", "deletion-vectors"]
"""rewrite: files with changed rows are rewritten. deletion-vectors: changed rows are marked as deleted in their files. auto: the
cheaper way, by MergeSettings.rewrite_below, in tables that were created with `auto` or have deletion vectors."""


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """Settings for merges with deletion vectors, for all tables.

    Args:
        rewrite_below: Total size of the files that may have a changed row, bytes, below which `auto` rewrites these files.
        key_index: Directory of the key indexes; None: `key-index` in the checkpoint.
        key_index_size: Maximum size of the indexes of one table, bytes; 0: no indexes, so each merge reads the key columns.

    Raises:
        InvalidOptionError: a size is negative.
    """

    rewrite_below: int = 32 << 20
    key_index: Path | None = None
    key_index_size: int = 2 << 30

    def __post_init__(self) -> None:
        for name in ("rewrite_below", "key_index_size"):
            if getattr(self, name) < 0:
                raise InvalidOptionError("a size must not be negative", where=f"merge.{name}")
