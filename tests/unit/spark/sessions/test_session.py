"""Unit tests of headstream.spark.sessions.session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headstream.spark.sessions.session import _count_cores, _settings

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


def test_settings_switch_the_web_page_off_only_when_a_quick_start_is_asked_for() -> None:
    assert "spark.ui.enabled" not in _settings("local[2]", [], None, None, delta=False, quick_start=False)
    assert _settings("local[2]", [], None, None, delta=False, quick_start=True)["spark.ui.enabled"] == "false"
