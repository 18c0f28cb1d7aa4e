"""Unit tests of headstream.log.catalog.commit_records."""

from __future__ import annotations

from pathlib import Path

from headstream.log.catalog.commit_records import CommitRecord, find_commit
from tests.support.log.staged import ORDERS, begin, make_log, manifest_of, open_log, stage, take_in


def test_commits_forget_a_writer_after_a_day_when_it_has_committed_only_once(tmp_path: Path) -> None:
    make_log(tmp_path, {ORDERS: 2})
    now = [1_000_000]
    log = open_log(tmp_path)
    log.commits._clock_us = lambda: now[0]
    for writer in ("once-1", "query"):
        begin(tmp_path, manifest_of(writer, 1, stage(tmp_path, writer, 1, "0", {(ORDERS, 1): [b"a"]})))
    take_in(log)
    now[0] += 2 * 86_400_000_000
    begin(tmp_path, manifest_of("once-2", 1, stage(tmp_path, "once-2", 1, "0", {(ORDERS, 1): [b"a"]})))
    take_in(log)
    catalog = log.catalog()
    assert catalog is not None
    assert find_commit(catalog, "once-1") is None
    assert find_commit(catalog, "query") == CommitRecord("query", 1, "done", changed_us=1_000_000)
    assert find_commit(catalog, "once-2") is not None
    log.close()
