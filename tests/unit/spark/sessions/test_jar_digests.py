"""Unit tests of headstream.spark.sessions.jar_digests."""

from __future__ import annotations

import hashlib

from headstream.spark.sessions.jar_digests import JAR_DIGESTS
from headstream.spark.sessions.jar_sets import SETS


def test_digests_cover_the_jars_that_are_asked_for() -> None:
    assert {jar.file_name for jar_set in SETS.values() for jar in jar_set.jars} < set(JAR_DIGESTS)
    assert all(len(bytes.fromhex(digest)) == hashlib.sha256().digest_size for digest in JAR_DIGESTS.values())
