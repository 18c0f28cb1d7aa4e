"""Unit tests of headstream.replicate.storage.hdfs."""

from __future__ import annotations

import pytest

from headstream.replicate.storage.places import StorePlace, failure, parse_place


def test_hdfs_has_its_user_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    place = parse_place("hdfs://namenode:8020/t")
    assert isinstance(place, StorePlace)
    assert (place.delta_options, place.access.hadoop_settings()) == ({}, {})
    assert place.hadoop_uri == "hdfs://namenode:8020/t"
    monkeypatch.setenv("HADOOP_USER_NAME", "cdc")
    assert place.access.describe() == "NameNode namenode:8020, user cdc"
    assert str(failure(place, "it failed", "no\n\tat org.apache.hadoop.A\n\tat B")) == "it failed: no (hdfs://namenode:8020/t)"
