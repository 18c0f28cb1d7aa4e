"""Unit tests of headstream.core.wire.commands.system."""

from __future__ import annotations

import json

from headstream.core.wire.commands import system


def test_stats_are_read_without_what_old_servers_leave_out() -> None:
    caches = (system.CacheMetrics(1, 2, 3, 10, 0, 1.0),)
    numbers = (1, 0.5, 3.0, 50_000_000, 16 << 30, 8_000_000_000, 7, 8, 0, 1500, 1536, 1, 2, 3, 4, 5, 6, 7)
    stats = system.Stats(*numbers, "h", "Linux", "12", "6.1", "0.4.300", 4300, caches)
    body = system.GetStats.encode_reply(stats)
    assert system.GetStats.decode_reply(body) == stats
    document = system.GetStats.reply_to_json(stats)
    assert (document["memory_usage"], document["total_memory"], document["written_bytes"]) == ("50 MB", "16 GiB", "1.5 KB")
    assert document["cache_metrics"] == {"1-2-3": {"hits": 10, "misses": 0, "hit_ratio": 1.0}}
    assert system.GetStats.reply_from_json(json.loads(json.dumps(document))) == stats
    for cut, version in ((36, "0.4.300"), (40, "0.4.300"), (51, "")):
        old = system.GetStats.decode_reply(body[: len(body) - cut])
        assert (old.kernel_version, old.server_version, old.caches) == ("6.1", version, ())
