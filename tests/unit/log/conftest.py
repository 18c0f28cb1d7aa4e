"""What tests of a partition's files share: the files, on a disk and in memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from headstream.log.system.files import Files
from tests.support.log.logs import make_files


@pytest.fixture(params=["os", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    """A partition's files, and its directory in them."""
    return make_files(request.param, tmp_path)
