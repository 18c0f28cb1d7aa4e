"""Unit tests of headstream.spark.sessions.spark_home."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from headstream.errors import MissingExtraError
from headstream.spark.sessions.spark_home import SESSION_VERSIONS, SOURCE_VERSIONS, find_missing_jars, find_pyspark, link_home


def test_link_home_makes_a_home_without_the_zip_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    pyspark = find_pyspark()
    home = link_home(pyspark)
    assert home is not None
    assert sorted(path.name for path in home.iterdir()) == ["bin", "jars", "log4j2.properties"]
    assert (home / "bin").resolve() == pyspark / "bin"
    assert link_home(pyspark) == home
    assert [path.name for path in (tmp_path / "headstream").iterdir()] == [home.name]


def test_link_home_does_without_when_the_cache_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert link_home(find_pyspark()) is None


@pytest.mark.parametrize(("version", "runs_source"), [("3.5.9", False), ("4.0.5", True), ("4.1.4", True), ("4.20.0", False)])
def test_versions_of_spark_are_refused_by_name(version: str, runs_source: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from headstream.spark import session

    monkeypatch.setattr("pyspark.__version__", version)
    with pytest.raises(MissingExtraError, match=rf"PySpark {re.escape(version)} is installed, but 4\.2 or 4\.3 is required"):
        session()
    if runs_source:
        assert find_pyspark(SOURCE_VERSIONS).name == "pyspark"
    else:
        with pytest.raises(MissingExtraError, match=r"4\.0 or 4\.1 or 4\.2 or 4\.3 is required"):
            find_pyspark(SOURCE_VERSIONS)


def test_a_version_without_jars_of_delta_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_missing_jars() == ""
    monkeypatch.setattr("pyspark.__version__", "4.3.0")
    assert find_pyspark(SESSION_VERSIONS) == find_pyspark(SOURCE_VERSIONS)
    assert "PySpark 4.3.0" in find_missing_jars()
