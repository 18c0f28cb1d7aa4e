"""Reading and writing through a server: who may, and that nobody is shown a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

import headstream as hs
from headstream.testing.local_server import LocalServer
from tests.support.server.certificates import write_certificate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PASSWORD = "kiwi-fruit-77"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LocalServer]:
    """A server with a user who may read one topic, and nothing else."""
    reads = hs.TopicPermissions(read_topic=True, poll_messages=True)
    with LocalServer(tmp_path / "log") as running, hs.connect(running.url) as log:
        for topic in ("shop/orders", "shop/copy"):
            log.create_topic(topic)
        with log.producer("shop/orders") as producer:
            for number in range(10):
                producer.send(b"%d" % number)
        permissions = hs.Permissions(streams={1: hs.StreamPermissions(topics={1: reads})})
        assert log.server is not None
        log.server.create_user("reader", PASSWORD, permissions=permissions)
        yield running


def url_of(server: LocalServer, password: str = PASSWORD) -> str:
    host, port = server.tcp_address
    return f"headstream://reader:{password}@{host}:{port}"


def load(spark: SparkSession, url: str) -> DataFrame:
    return spark.read.format("headstream").option("subscribe", "shop/orders").load(url)


def count_new(spark: SparkSession, url: str, checkpoint: Path) -> int:
    """Run a stream until it has read what is there, and return how many rows it read."""
    source = spark.readStream.format("headstream").option("url", url).option("subscribe", "shop/orders").load()
    writer = source.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    return sum(int(progress["numInputRows"]) for progress in query.recentProgress)


def test_no_password_is_in_a_plan_a_checkpoint_or_an_error(
    spark: SparkSession, server: LocalServer, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    shown = []
    frame = load(spark, url_of(server))
    assert frame.count() == 10
    for mode in ("extended", "formatted", "cost"):
        frame.explain(mode=mode)
    checkpoint = tmp_path / "checkpoint"
    source = spark.readStream.format("headstream").option("url", url_of(server)).option("subscribe", "shop/orders").load()
    query = source.writeStream.format("noop").option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(60)
    query.explain(extended=True)
    shown += [str(progress.json) for progress in query.recentProgress]
    shown += [path.read_text(errors="replace") for path in checkpoint.rglob("*") if path.is_file()]
    with pytest.raises(PySparkException, match="user 'reader' cannot log in") as wrong:
        load(spark, url_of(server, f"{PASSWORD}-wrong")).count()
    copied = source.select("payload").writeStream.format("headstream").option("url", url_of(server)).option("topic", "shop/copy")
    refused = copied.option("checkpointLocation", str(tmp_path / "refused")).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match=r"PermissionDenied|may not") as forbidden:
        refused.awaitTermination(60)
    shown += [str(wrong.value), str(forbidden.value), *capfd.readouterr()]
    assert "Physical Plan" in "".join(shown)
    assert [text for text in shown if PASSWORD in text] == []
    with hs.connect(server.url) as log:
        assert log.topic("shop/copy").messages_count == 0


def test_a_query_goes_on_through_the_server_and_back(spark: SparkSession, server: LocalServer, tmp_path: Path) -> None:
    directory, checkpoint = (tmp_path / "log").as_uri(), tmp_path / "checkpoint"
    taken = [count_new(spark, directory, checkpoint), count_new(spark, url_of(server), checkpoint)]
    with hs.connect(server.url) as log, log.producer("shop/orders") as producer:
        for _ in range(3):
            producer.send(b"more")
    taken += [count_new(spark, url_of(server), checkpoint), count_new(spark, directory, checkpoint)]
    assert taken == [10, 0, 3, 0]


def test_a_server_is_read_and_written_over_tls_by_who_has_a_token(spark: SparkSession, tmp_path: Path) -> None:
    files = write_certificate(tmp_path, "mq.example")
    with LocalServer(tmp_path / "log", tls=files) as server:
        trust = {"tls_ca_file": str(files.certificate), "tls_domain": "mq.example"}
        with hs.connect(server.url, **trust) as log:
            assert log.server is not None
            token = log.server.create_token("spark")
        host, port = server.tcp_address
        bare = f"headstream://:{quote(token, safe='')}@{host}:{port}?tls=true"
        url = f"{bare}&{urlencode(trust)}"
        with hs.connect(url) as log:
            for topic in ("shop/orders", "shop/copy"):
                log.create_topic(topic, partitions=2)
            with log.producer("shop/orders") as producer:
                for number in range(100):
                    producer.send(b"%d" % number, headers={"number": number})
        orders = load(spark, url)
        assert orders.selectExpr("sum(variant_get(headers, '$.number', 'int'))").first() == (4950,)
        orders.select("payload").write.format("headstream").option("topic", "shop/copy").mode("append").save(url)
        assert count_new(spark, url, tmp_path / "checkpoint") == 100
        with hs.connect(url) as log:
            assert log.topic("shop/copy").messages_count == 100
        with pytest.raises(PySparkException, match="cannot be reached"):
            load(spark, bare).count()  # nothing says that it may be trusted
