"""Tables with deletion vectors, as Spark wrote them: rows 1 to 12, of which 2, 3, 8 and 10 are deleted."""

from __future__ import annotations

import os
import re
import shutil
import time
from pathlib import Path
from typing import Final

SAMPLES: Final = ("vectors", "vectors-checkpoint-2")
ROWS: Final = [1, 4, 5, 6, 7, 9, 11, 12]
_DIRECTORY: Final = Path(__file__).parents[2] / "samples/delta"


def vector_table(path: Path, sample: str = "vectors", *, replaced_days: int = 10) -> Path:
    """Copy a sample to a path, as a month old.

    Args:
        path: Where to.
        sample: One of SAMPLES.
        replaced_days: When two of the deletion vectors were replaced, days ago.
    """
    shutil.copytree(_DIRECTORY / sample, path)
    replaced_ms = round((time.time() - replaced_days * 86_400) * 1000)
    for commit in (path / "_delta_log").glob("*.json"):
        commit.write_text(re.sub(r'"deletionTimestamp":\d+', f'"deletionTimestamp":{replaced_ms}', commit.read_text()))
    changed = time.time() - 30 * 86_400
    for file in path.rglob("*"):
        os.utime(file, (changed, changed))
    return path
