"""The switch of the fast path: with `HEADSTREAM_FAST_PATH=0` in the environment, the general path answers every request.

For debugging: a difference between the two settings is a fault of the fast path.
"""

from __future__ import annotations

import os
from typing import Final

FAST_PATH_VARIABLE: Final = "HEADSTREAM_FAST_PATH"


def has_fast_path() -> bool:
    """Return whether a server that starts now uses the fast path."""
    return os.environ.get(FAST_PATH_VARIABLE, "").strip().lower() not in ("0", "false")
