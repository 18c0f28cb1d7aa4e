from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headstream.errors import EnvironmentSetupError, MissingExtraError
from headstream.spark.sessions.given_settings import find_given
from headstream.spark.sessions.session import _merge_settings


def test_session_names_the_extra_when_pyspark_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from headstream.spark import session

    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'headstream\[spark\]'"):
        session()


def test_session_can_be_imported_without_pyspark() -> None:
    code = (
        "import sys, headstream.spark; print([name for name in sys.modules if name.partition('.')[0] in ('pyspark', 'pyarrow')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.fixture
def no_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyspark import SparkContext

    monkeypatch.setattr(SparkContext, "_gateway", None)


@pytest.mark.usefixtures("no_jvm")
def test_find_given_reads_defaults_and_what_spark_submit_is_told_when_no_jvm_runs(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\nspark.master            local[3]\nspark.a=1\nspark.b: two words \n\nspark.ui.enabled false\n"
    )
    arguments = "--conf spark.a=5 --driver-memory=3g --conf 'spark.driver.extraJavaOptions=-Da=b -Dc' --name job pyspark-shell"
    given = find_given({"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": arguments}, Path("/pyspark"))
    assert given == {
        "spark.master": "local[3]", "spark.a": "5", "spark.b": "two words", "spark.ui.enabled": "false",
        "spark.driver.memory": "3g", "spark.driver.extraJavaOptions": "-Da=b -Dc", "spark.app.name": "job",
    }  # fmt: skip


@pytest.mark.usefixtures("no_jvm")
def test_find_given_looks_into_spark_home_or_the_file_that_is_named(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.a 1\n")
    (tmp_path / "other.conf").write_text("spark.a 2\n")
    home = {"SPARK_HOME": str(tmp_path)}
    assert find_given(home, Path("/pyspark")) == {"spark.a": "1"}
    assert find_given({}, tmp_path) == {"spark.a": "1"}
    named = {"PYSPARK_SUBMIT_ARGS": f"--properties-file {tmp_path / 'other.conf'} pyspark-shell"}
    assert find_given(home | named, Path("/pyspark")) == {"spark.a": "2"}
    assert find_given({}, Path("/pyspark")) == {}


@pytest.mark.usefixtures("no_jvm")
def test_find_given_says_what_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentSetupError, match="PYSPARK_SUBMIT_ARGS cannot be read"):
        find_given({"PYSPARK_SUBMIT_ARGS": "--name 'open"}, tmp_path)
    (tmp_path / "conf" / "spark-defaults.conf").mkdir(parents=True)
    with pytest.raises(EnvironmentSetupError, match="Spark's settings cannot be read"):
        find_given({}, tmp_path)


def test_defaults_yield_to_what_is_given_and_that_to_the_caller() -> None:
    ours = {"spark.a": "ours", "spark.b": "ours", "spark.c": "ours", "spark.sql.extensions": "Delta"}
    chosen = _merge_settings(ours, {"spark.a": "submit", "spark.b": "submit"}, {"spark.b": "caller", "spark.d": "caller"})
    assert chosen == {"spark.b": "caller", "spark.c": "ours", "spark.d": "caller", "spark.sql.extensions": "Delta"}


def test_defaults_are_joined_with_what_is_given_when_a_setting_holds_several_things() -> None:
    ours = {"spark.driver.extraJavaOptions": "-Dx=1", "spark.jars": "/a.jar,/b.jar", "spark.sql.extensions": "Delta"}
    given = {"spark.driver.extraJavaOptions": "-Dy=2", "spark.jars": "/c.jar,/a.jar"}
    assert _merge_settings(ours, given, {"spark.sql.extensions": "Iceberg"}) == {
        "spark.driver.extraJavaOptions": "-Dx=1 -Dy=2",
        "spark.jars": "/a.jar,/b.jar,/c.jar",
        "spark.sql.extensions": "Delta,Iceberg",
    }
