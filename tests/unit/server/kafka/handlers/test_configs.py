"""Settings of topics by Kafka's names: which ones are accepted, and what they become."""

from __future__ import annotations

import pytest

from headstream.core.model.topology import TopicOptions
from headstream.server.kafka.handlers.configs import apply_config
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("compression.type", codec) for codec in ("uncompressed", "gzip", "snappy", "lz4", "zstd", "producer")),
        ("segment.bytes", "1073741824"), ("segment.ms", "604800000"), ("min.insync.replicas", "1"),
        ("message.timestamp.type", "CreateTime"), ("unclean.leader.election.enable", "FALSE"), ("preallocate", "true"),
        ("file.delete.delay.ms", "60000"), ("min.cleanable.dirty.ratio", "0.5"), ("max.message.bytes", "1048588"),
        ("flush.messages", "9223372036854775807"), ("leader.replication.throttled.replicas", "*"),
        ("remote.storage.enable", None), ("message.timestamp.type", None), ("segment.bytes", None),
    ],
)  # fmt: skip
def test_apply_config_leaves_the_options_as_they_are_when_a_tool_sets_what_is_so_anyway(name: str, value: str | None) -> None:
    options = TopicOptions(retention_us=5_000)
    assert apply_config(options, name, value) == options


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min.insync.replicas", "2"), ("message.timestamp.type", "LogAppendTime"), ("remote.storage.enable", "true"),
        ("flush.messages", "1"), ("flush.ms", "1000"), ("max.message.bytes", "67108865"), ("compression.type", "brotli"),
        ("segment.bytes", "big"), ("preallocate", "yes"), ("unclean.thing", "1"), ("unclean.thing", None),
        ("message.timestamp.after.max.ms", "3600000"), ("min.compaction.lag.ms", "60000"),
    ],
)  # fmt: skip
def test_apply_config_refuses_a_setting_when_it_would_promise_what_is_not_so(name: str, value: str | None) -> None:
    with pytest.raises(ProtocolError, match=name) as caught:
        apply_config(TopicOptions(), name, value)
    assert caught.value.fault is ErrorCode.INVALID_CONFIG
