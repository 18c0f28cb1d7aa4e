"""The fixtures that pytest finds by itself, used by a suite without a conftest.py."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/testing.md"
MORE = """
import headstream as hs


def test_server_is_running_and_its_log_is_empty(headstream_server):
    with hs.connect(headstream_server.url) as log:
        assert log.topics() == []


def test_log_is_another_one_for_each_test(headstream_log):
    assert headstream_log.topics() == []


def test_source_is_the_default_one_without_a_marker(source_database):
    assert source_database.digest("SHOP", "orders") == hs_testing().SourceDatabase().digest("SHOP", "orders")


def hs_testing():
    import headstream.testing

    return headstream.testing
"""


def run(place: Path, source: str, *options: str) -> str:
    (place / "test_mine.py").write_text(source)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", *options, "test_mine.py"]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, check=False, timeout=300).stdout


def test_fixtures_are_found_when_there_is_no_conftest(tmp_path: Path) -> None:
    page = PAGE.read_text("utf-8").partition("## Fixtures for pytest")[2]
    [example] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert "5 passed" in run(tmp_path, example + MORE)


def test_plugin_loads_nothing_of_headstream_when_no_fixture_is_used(tmp_path: Path) -> None:
    source = """
import sys

def test_nothing():
    assert 'pytest_headstream' in sys.modules
    assert 'headstream' not in sys.modules
"""
    assert "1 passed" in run(tmp_path, source)


def test_fixtures_are_found_once_when_a_conftest_names_them_too(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["headstream.testing.fixtures"]\n')
    assert "1 passed" in run(tmp_path, "def test_log(headstream_log):\n    assert headstream_log.topics() == []\n")


def test_the_plugin_leaves_headstreams_modules_to_the_usual_import() -> None:
    """Pytest compiles the modules of a plugin's distribution anew, 400 of them here, which would slow down everybody's tests."""
    import headstream.core.model.message
    import pytest_headstream

    assert type(pytest_headstream.__loader__).__name__ == "AssertionRewritingHook"  # so pytest does it to plugins
    assert type(headstream.core.model.message.__loader__).__name__ != "AssertionRewritingHook"
