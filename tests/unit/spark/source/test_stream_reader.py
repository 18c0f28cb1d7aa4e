"""Unit tests of headstream.spark.source.stream_reader."""

from __future__ import annotations

from headstream.spark.source.options import parse_options
from headstream.spark.source.stream_reader import UnlimitedStreamReader
from tests.unit.spark.source.test_reader import directory, read, send, server, url

__all__ = ["directory", "server", "url"]  # fixtures


def test_stream_without_limits_ends_each_micro_batch_at_the_end_of_the_log(url: str) -> None:
    send(url, 3, 5)
    reader = UnlimitedStreamReader(parse_options({"url": url, "subscribe": "shop/orders", "headers": "none"}))
    place = reader.initialOffset()
    ends: list[tuple[list[int], bool]] = []
    for _ in range(2):
        end = reader.latestOffset()
        rows = [
            row for part in reader.partitions(place, end) for batch in reader.read(part) for row in batch["offset"].to_pylist()
        ]
        ends.append((rows, end == place))
        place = end
        send(url, 1, 5)
    rows = [row for part in reader.partitions(place, reader.latestOffset()) for row in read([part.value])]
    reader.stop()
    assert ends == [(list(range(15)), False), (list(range(15, 20)), False)]
    assert rows == list(range(20, 25))
