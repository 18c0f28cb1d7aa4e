"""Unit tests of headstream.server.iggy.fast_path.traffic."""

from __future__ import annotations

from headstream.server.iggy.fast_path.traffic import Traffic
from tests.support import kernels


def test_traffic_counts_the_same_compiled_and_interpreted() -> None:
    found = []
    for module in kernels.variants("headstream.server.iggy.fast_path.traffic"):
        traffic: Traffic = module.Traffic("tcp")
        for code, status, seconds in ((1, 0, 0.00005), (1, 0, 0.3), (101, 4040, 20.0), (424242, 3, 0.1)):
            traffic.answered(code, status, seconds)
        found.append({code: (each.done, each.refused, each.counts, each.seconds) for code, each in traffic.commands.items()})
    assert found[0] == {
        1: (2, {}, [1, *[0] * 9, 0, 1, *[0] * 5], 0.30005),
        101: (0, {4040: 1}, [0] * 16 + [1], 20.0),
        0: (0, {3: 1}, [0] * 9 + [1] + [0] * 7, 0.1),
    }
    assert all(each == found[0] for each in found)
