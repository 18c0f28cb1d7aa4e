"""docs/api.md is what today's docstrings give."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_api_page_is_made_of_the_docstrings_of_today() -> None:
    command = [sys.executable, str(ROOT / "tools/make_api_reference.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
