"""Entropy: no byte twice, whatever is asked for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from headstream.broker.messages.entropy import Entropy


def test_entropy_gives_so_many_bytes_and_never_the_same_when_asked_from_many_threads() -> None:
    entropy = Entropy()
    assert [len(entropy(count)) for count in (1, 15, 16, 17, 5000)] == [1, 15, 16, 17, 5000]
    with ThreadPoolExecutor(4) as threads:
        seeds = list(threads.map(entropy, [16] * 4000))
    assert len(set(seeds)) == 4000
