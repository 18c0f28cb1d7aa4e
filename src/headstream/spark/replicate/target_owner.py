"""Whose a target is: a small file in its directory names the pipeline that writes it, and another one is refused.

What one pipeline deletes, and how it placed loads, another does not know: two of them would make a wrong table in silence.

    <table>/_headstream.json     {"pipeline": "<identity>", "checkpoint": "<directory>"}; readers of Delta tables pass it over
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from headstream.errors import ReplicateError, StorageError
from headstream.spark.replicate.table_places import has_table

__all__ = ["OWNER_FILE", "Owner"]

OWNER_FILE: Final = "_headstream.json"


@dataclass(frozen=True, slots=True)
class Owner:
    """A pipeline that writes tables.

    Args:
        pipeline: Its identity.
        checkpoint: Its checkpoint directory, for people.
        take_over: Whether it takes tables that another pipeline has written.
    """

    pipeline: str
    checkpoint: Path
    take_over: bool = False

    def claim(self, path: Path) -> None:
        """Make a table this pipeline's where it is nobody's; one that is not made yet stays nobody's.

        Args:
            path: The table's directory.

        Raises:
            ReplicateError: it is another pipeline's; or one that is not made yet would lie in another table, or around one,
                whose files a vacuum takes for its own.
            StorageError: that cannot be read or written.
        """
        try:
            if (path / "_delta_log").is_dir():
                self._claim(path / OWNER_FILE)
            else:
                _check_apart(path)
        except OSError as error:
            raise StorageError(f"whose the table is cannot be told: {error.strerror}", where=str(path)) from error

    def _claim(self, place: Path) -> None:
        owner = _read(place)
        if owner is None or (self.take_over and owner.get("pipeline") != self.pipeline):
            owner = self._write(place, replace=owner is not None)
        if owner.get("pipeline") != self.pipeline:
            raise ReplicateError(
                f"another pipeline writes the table, that of the checkpoint {owner.get('checkpoint')}",
                where=str(place.parent),
                advice="Give each pipeline targets of its own (tables, target). Where that checkpoint is gone, run with "
                "--take-over: what it knew of deletions is gone too, so load the table again",
            )

    def _write(self, place: Path, *, replace: bool) -> dict[str, Any]:
        """Write whose it is, and return that: of two who find it nobody's at once the first is the one."""
        mine = place.with_name(f"{place.name}.{uuid.uuid4().hex}")
        try:
            mine.write_text(json.dumps({"pipeline": self.pipeline, "checkpoint": str(self.checkpoint.resolve())}))
            if replace:
                mine.replace(place)
            else:
                os.link(mine, place)
        except FileExistsError:
            pass
        finally:
            mine.unlink(missing_ok=True)
        return _read(place) or {}


def _check_apart(path: Path) -> None:
    """Refuse a new table's directory in which, or around which, another table lies: one without a schema, named as a schema."""
    around = [path.parent, *(log.parent for log in path.glob("*/_delta_log"))]
    for other in [place for place in around if has_table(place)]:
        raise ReplicateError(
            f"the table's directory would lie {'in' if other == path.parent else 'around'} that of another table, {other}",
            where=str(path),
            advice="Give one of them another target (tables, target): a vacuum of the outer one would delete the other's files",
        )


def _read(place: Path) -> dict[str, Any] | None:
    """Return what a file says; None where there is none."""
    try:
        found = json.loads(place.read_text())
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
