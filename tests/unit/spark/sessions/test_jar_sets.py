"""Unit tests of headstream.spark.sessions.jar_sets."""

from __future__ import annotations

from headstream.spark.sessions.jar_sets import SETS, SPARK, Jar, JarSet


def test_jar_sets_have_folders_of_their_own_when_a_version_changes() -> None:
    newer = JarSet("spark", (Jar("io.delta", "delta-spark_4.2_2.13", "9.9.9"), *SPARK.jars[1:]))
    assert newer.folder_name != SPARK.folder_name
    assert newer.folder_name.startswith("spark-")
    assert set(SETS) == {"spark", "broker", "s3", "azure", "gcs", "postgresql", "mariadb", "namenode", "yarn", "debezium"}
    assert str(SPARK.jars[0]) == "io.delta:delta-spark_4.2_2.13:4.4.0"
