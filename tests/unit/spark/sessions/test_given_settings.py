from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headstream.errors import EnvironmentSetupError, MissingExtraError
from headstream.spark.sessions.given_settings import find_given
from headstream.spark.sessions.session import _count_cores, _merge_settings, _settings
from headstream.spark.sessions.spark_home import SOURCE_VERSIONS, find_pyspark, link_home

JARS = [Path("/jars/a.jar"), Path("/jars/b.jar")]


@pytest.mark.parametrize(
    ("master", "cores"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[3,2]", 3),
        ("local[*]", os.cpu_count()),
        ("local-cluster[2,3,1024]", 6),
        ("yarn", 0),
        ("spark://host:7077", 0),
        ("k8s://https://host", 0),
    ],
)
def test_settings_know_how_many_cores_when_the_master_is_this_machine(master: str, cores: int) -> None:
    assert _count_cores(master) == cores


def test_settings_put_the_jars_on_the_class_path_when_the_master_is_local() -> None:
    settings = _settings("local[2]", JARS, Path("/home"), None, delta=True, quick_start=False)
    assert settings["spark.driver.extraClassPath"] == os.pathsep.join(["/jars/a.jar", "/jars/b.jar"])
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert settings["spark.driver.extraJavaOptions"] == "-Dlog4j2.configurationFile=/home/log4j2.properties"
    assert "spark.jars" not in settings


def test_settings_use_a_class_archive_when_there_is_one() -> None:
    options = _settings("local", [], None, Path("/cache/x.jsa"), delta=False, quick_start=False)["spark.driver.extraJavaOptions"]
    assert options == "-XX:SharedArchiveFile=/cache/x.jsa -Xlog:disable"
    quick = _settings("local", [], None, None, delta=False, quick_start=True)["spark.driver.extraJavaOptions"]
    assert quick == "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def test_settings_send_the_jars_along_when_the_master_is_a_cluster() -> None:
    settings = _settings("spark://host:7077", JARS, None, Path("/x.jsa"), delta=True, quick_start=True)
    assert settings["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert not {"spark.driver.extraClassPath", "spark.driver.host", "spark.driver.extraJavaOptions"} & set(settings)


def test_settings_are_those_of_delta_when_spark_submit_was_given_its_jars() -> None:
    settings = _settings("yarn", [], None, None, delta=True, quick_start=False)
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert "spark.jars" not in settings


def test_settings_use_no_socket_files_on_a_cluster_whose_temporary_directories_can_have_long_names() -> None:
    name = "spark.python.unix.domain.socket.enabled"
    assert _settings("local[2]", [], None, None, delta=False, quick_start=False)[name] == "true"
    assert name not in _settings("yarn", [], None, None, delta=False, quick_start=False)


def test_settings_name_no_jar_class_when_there_are_no_jars() -> None:
    settings = _settings("local[2]", [], None, None, delta=False, quick_start=False)
    assert not any("delta.sql" in value or "extraClassPath" in key for key, value in settings.items())
    assert "spark.driver.extraJavaOptions" not in settings


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


def test_session_names_the_extra_when_pyspark_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from headstream.spark import session

    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'headstream\[spark\]'"):
        session()


@pytest.mark.parametrize(("version", "runs_source"), [("3.5.9", False), ("4.0.5", True), ("4.1.4", True), ("4.20.0", False)])
def test_versions_of_spark_are_refused_by_name(version: str, runs_source: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from headstream.spark import session

    monkeypatch.setattr("pyspark.__version__", version)
    with pytest.raises(MissingExtraError, match=rf"PySpark {re.escape(version)} is installed, and 4\.2 is needed"):
        session()
    if runs_source:
        assert find_pyspark(SOURCE_VERSIONS).name == "pyspark"
    else:
        with pytest.raises(MissingExtraError, match=r"4\.0 or 4\.1 or 4\.2 is needed"):
            find_pyspark(SOURCE_VERSIONS)


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


def test_settings_switch_the_web_page_off_only_when_a_quick_start_is_asked_for() -> None:
    assert "spark.ui.enabled" not in _settings("local[2]", [], None, None, delta=False, quick_start=False)
    assert _settings("local[2]", [], None, None, delta=False, quick_start=True)["spark.ui.enabled"] == "false"
