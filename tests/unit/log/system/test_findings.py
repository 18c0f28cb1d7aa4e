"""Unit tests of headstream.log.system.findings."""

from __future__ import annotations

from pathlib import Path

from tests.unit.log.checks.test_verification import flip, root, verify_log

__all__ = ["root"]  # fixtures


def test_findings_name_topic_and_partition(root: Path) -> None:
    (path,) = root.glob("streams/*/*/1/*.log")
    flip(path, 46)
    (finding,) = verify_log(root)
    assert (finding.topic, finding.partition, finding.from_offset) == ("shop/orders", 1, 0)
