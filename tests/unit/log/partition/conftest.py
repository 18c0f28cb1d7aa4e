from __future__ import annotations

import pytest

from headstream.log.system.files import MemoryFiles


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory("/offsets")
    return files
