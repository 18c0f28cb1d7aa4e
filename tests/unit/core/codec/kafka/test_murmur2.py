"""murmur2: the numbers of Kafka's own test of it (UtilsTest.testMurmur2), and librdkafka's partitions."""

from __future__ import annotations

import pytest

from headstream.core.codec.kafka.murmur2 import kafka_partition_of, murmur2


@pytest.mark.parametrize(
    ("key", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_is_javas_for_the_keys_of_kafkas_own_test(key: bytes, signed: int) -> None:
    assert murmur2(key) == signed & 0xFFFFFFFF


def test_kafka_partition_of_drops_the_sign_when_the_hash_is_negative() -> None:
    assert kafka_partition_of(b"21", 1000) == (-973932308 & 0x7FFFFFFF) % 1000
    assert {kafka_partition_of(b"%d" % number, 3) for number in range(50)} == {0, 1, 2}
