"""The switch for the fast path: with the environment variable `HEADSTREAM_FAST_PATH=0`, the general path answers all requests.

For debugging: any difference in behavior is a fault of the fast path.
"""

from __future__ import annotations

import os
from typing import Final

FAST_PATH_VARIABLE: Final = "HEADSTREAM_FAST_PATH"


def has_fast_path() -> bool:
    """Return whether servers use the fast path, as currently configured."""
    return os.environ.get(FAST_PATH_VARIABLE, "").strip().lower() not in ("0", "false")
