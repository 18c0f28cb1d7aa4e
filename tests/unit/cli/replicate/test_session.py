"""A pipeline on an object store, on a machine that cannot fetch Spark's jars for it."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from headstream.cli.replicate import session


def test_jars_that_cannot_be_fetched_are_left_out_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADSTREAM_JARS", str(tmp_path / "file" / "jars"))
    assert session._available(["azure", "s3"]) == []
    assert [record.getMessage().partition(": ")[0] for record in caplog.records] == [
        "the jars of the set azure cannot be fetched, and without them Spark cannot write tables to this store",
        "the jars of the set s3 cannot be fetched, and without them Spark cannot write tables to this store",
    ]
