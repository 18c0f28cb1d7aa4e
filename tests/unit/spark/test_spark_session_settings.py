from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headstream.errors import MissingExtraError
from headstream.spark.session import _count_cores, _settings
from headstream.spark.spark_home import find_pyspark, link_home

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
    settings = _settings("local[2]", JARS, Path("/home"), None, quick_start=False)
    assert settings["spark.driver.extraClassPath"] == os.pathsep.join(["/jars/a.jar", "/jars/b.jar"])
    assert settings["spark.sql.extensions"] == "io.delta.sql.DeltaSparkSessionExtension"
    assert settings["spark.driver.extraJavaOptions"] == "-Dlog4j2.configurationFile=/home/log4j2.properties"
    assert "spark.jars" not in settings


def test_settings_use_a_class_archive_when_there_is_one() -> None:
    options = _settings("local", [], None, Path("/cache/x.jsa"), quick_start=False)["spark.driver.extraJavaOptions"]
    assert options == "-XX:SharedArchiveFile=/cache/x.jsa -Xlog:disable"
    quick = _settings("local", [], None, None, quick_start=True)["spark.driver.extraJavaOptions"]
    assert quick == "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


def test_settings_send_the_jars_along_when_the_master_is_a_cluster() -> None:
    settings = _settings("spark://host:7077", JARS, None, Path("/x.jsa"), quick_start=True)
    assert settings["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert not {"spark.driver.extraClassPath", "spark.driver.host", "spark.driver.extraJavaOptions"} & set(settings)


def test_settings_name_no_jar_class_when_there_are_no_jars() -> None:
    settings = _settings("local[2]", [], None, None, quick_start=False)
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


def test_session_can_be_imported_without_pyspark() -> None:
    code = (
        "import sys, headstream.spark; print([name for name in sys.modules if name.partition('.')[0] in ('pyspark', 'pyarrow')])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
