from __future__ import annotations

import pickle

import pytest

from headstream.core.codec.batch.results import WantedHeader
from headstream.errors import InvalidInputError, InvalidOptionError, InvalidUrlError
from headstream.spark.source.bounds import Bound
from headstream.spark.source.limits import BatchLimits
from headstream.spark.source.offsets import TopicPartition
from headstream.spark.source.options import COLUMN_NAMES, RowShape, parse_options
from headstream.spark.source.subscription import parse_subscription

LEAST = {"url": "file:///var/lib/shop", "subscribe": "shop/orders"}


def test_parse_options_has_a_default_for_all_but_url_and_topics() -> None:
    options = parse_options(LEAST)
    assert options.log == "/var/lib/shop"
    assert options.subscription == parse_subscription(LEAST)
    assert (options.starting, options.ending) == (Bound("startingOffsets", "earliest"), Bound("endingOffsets", "latest"))
    assert options.shape == RowShape(COLUMN_NAMES, "variant", (), False)
    assert options.states == frozenset({1})
    assert options.limits == BatchLimits(None, None, None, 15 * 60 * 1_000_000)
    assert (options.min_partitions, options.fail_on_data_loss) == (None, True)


def test_parse_options_takes_names_in_any_case_when_spark_lowers_them() -> None:
    given = {
        "URL": "file://localhost/a%20b/",
        "subscribe": " shop/orders, shop/returns ",
        "startingoffsets": '{"shop/orders": {"1": 23, "2": -2}}',
        "endingOffsets": '{"shop/returns": {"1": -1}}',
        "HEADERS": "Binary",
        "headerColumns": "attempt INT, source STRING",
        "headerMismatch": "Fail",
        "Columns": "Payload, offset",
        "states": "poisoned, unknown(7)",
        "maxoffsetspertrigger": "100",
        "minOffsetsPerTrigger": "50",
        "maxTriggerDelay": "90s",
        "maxBytesPerTrigger": "2g",
        "minPartitions": "4",
        "failOnDataLoss": "FALSE",
    }
    options = parse_options(given)
    assert options.log == "/a b"
    assert [str(topic) for topic in options.subscription.topics or ()] == ["shop/orders", "shop/returns"]
    assert options.starting.at == {TopicPartition("shop/orders", 1): 23, TopicPartition("shop/orders", 2): -2}
    assert options.ending.at == {TopicPartition("shop/returns", 1): -1}
    wanted = (WantedHeader("attempt", "int32"), WantedHeader("source", "string"))
    assert options.shape == RowShape(("payload", "offset"), "binary", wanted, True)
    assert options.states == frozenset({20, 7})
    assert options.limits == BatchLimits(100, 2 << 30, 50, 90_000_000)
    assert (options.min_partitions, options.fail_on_data_loss) == (4, False)
    assert pickle.loads(pickle.dumps(options)) == options


def test_parse_options_takes_the_path_of_load_for_the_url() -> None:
    assert parse_options({"path": "file:///x", "subscribe": "a/b"}).log == "/x"


def test_parse_options_reads_every_state_when_states_is_all() -> None:
    assert parse_options({**LEAST, "states": "all"}).states is None


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [
        ("500ms", 500_000),
        ("15m", 900_000_000),
        ("2 min", 120_000_000),
        ("1H", 3_600_000_000),
        ("1d", 86_400_000_000),
        ("70", 70_000),
    ],
)
def test_parse_options_reads_a_duration_as_spark_does(text: str, expected_us: int) -> None:
    given = {**LEAST, "minOffsetsPerTrigger": "1", "maxTriggerDelay": text}
    assert parse_options(given).limits.max_delay_us == expected_us


@pytest.mark.parametrize(("text", "expected"), [("1", 1), ("9k", 9216), ("5 MB", 5_000_000), ("5MiB", 5 << 20), ("1t", 1 << 40)])
def test_parse_options_reads_a_size(text: str, expected: int) -> None:
    assert parse_options({**LEAST, "maxBytesPerTrigger": text}).limits.max_bytes == expected


def test_parse_options_lets_a_header_have_the_name_of_a_column_that_is_left_out() -> None:
    given = {**LEAST, "columns": "payload", "headerColumns": "id BIGINT"}
    assert parse_options(given).shape.header_columns == (WantedHeader("id", "int64"),)


def test_parse_options_takes_header_columns_alone() -> None:
    shape = parse_options({**LEAST, "columns": "", "headerColumns": "attempt INT"}).shape
    assert (shape.columns, shape.header_columns) == ((), (WantedHeader("attempt", "int32"),))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**LEAST, "startingOffset": "latest"}, "Did you mean startingOffsets?"),
        ({**LEAST, "columns": "payload,size"}, "columns names 'size', which the source does not have"),
        ({**LEAST, "columns": "headers", "headers": "none"}, "which headers=none leaves out"),
        ({**LEAST, "columns": "key,key"}, "must not repeat a column"),
        ({**LEAST, "columns": " "}, "must name a column"),
        ({"subscribe": "a/b"}, "option url is missing"),
        ({"url": "file:///x"}, "option subscribe is missing"),
        ({**LEAST, "subscribePattern": "a/.*"}, "subscribe and subscribePattern both name topics"),
        ({**LEAST, "path": "file:///y"}, "both name a log"),
        ({**LEAST, "startOffsets": "earliest"}, "unknown option 'startoffsets'"),
        ({**LEAST, "startingOffsets": "first"}, "startingOffsets cannot be read"),
        ({**LEAST, "startingOffsets": '{"shop/returns": {"1": 5}}'}, "shop/returns partition 1, which is not in subscribe"),
        ({**LEAST, "startingOffsets": "latest", "startingTimestamp": "5"}, "contradict each other"),
        ({**LEAST, "endingOffsets": "earliest"}, "endingOffsets=earliest"),
        ({**LEAST, "headers": "list"}, "headers must be"),
        ({**LEAST, "headerColumns": "a TIME"}, "a cannot be of type TIME"),
        ({**LEAST, "headerColumns": "Payload STRING"}, "names 'Payload', which is also a column of the source"),
        ({**LEAST, "headerMismatch": "fail"}, "headerMismatch requires headerColumns"),
        ({**LEAST, "headerColumns": "a INT", "headerMismatch": "drop"}, "headerMismatch must be"),
        ({**LEAST, "states": "gone"}, "states: 'gone'"),
        ({**LEAST, "states": ","}, "states must not be empty"),
        ({**LEAST, "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0"),
        ({**LEAST, "maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger=many"),
        ({**LEAST, "maxBytesPerTrigger": "0"}, "maxBytesPerTrigger=0 is not a number of bytes"),
        ({**LEAST, "maxBytesPerTrigger": "1 elephant"}, "maxBytesPerTrigger=1 elephant"),
        ({**LEAST, "maxTriggerDelay": "5m"}, "maxTriggerDelay requires minOffsetsPerTrigger"),
        ({**LEAST, "minOffsetsPerTrigger": "5", "maxTriggerDelay": "5 x"}, "maxTriggerDelay=5 x is not a duration"),
        ({**LEAST, "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "minOffsetsPerTrigger=5 is more than"),
        ({**LEAST, "minPartitions": "-1"}, "minPartitions=-1"),
        ({**LEAST, "minPartitions": "1000000"}, "minPartitions=1000000"),
        ({**LEAST, "failOnDataLoss": "no"}, "failOnDataLoss must be"),
    ],
)
def test_parse_options_names_the_option_when_it_cannot_be_used(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOptionError) as raised:
        parse_options(given)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "url", ["kafka://host:9092", "http://host", "/var/lib/shop", "file://host/x", "file:x", "file:///x?y=1", "memory://"]
)
def test_parse_options_refuses_a_url_that_spark_cannot_read(url: str) -> None:
    with pytest.raises(InvalidUrlError) as raised:
        parse_options({"url": url, "subscribe": "a/b"})
    assert repr(url) in str(raised.value)


def test_options_refuse_in_a_batch_what_is_for_streams_and_the_other_way_round() -> None:
    with pytest.raises(InvalidInputError, match="maxOffsetsPerTrigger is supported only in streams"):
        parse_options({**LEAST, "maxOffsetsPerTrigger": "5"}).check_batch()
    with pytest.raises(InvalidInputError, match="startingOffsets=latest"):
        parse_options({**LEAST, "startingOffsets": "latest"}).check_batch()
    with pytest.raises(InvalidInputError, match="endingOffsets is only for batch reads"):
        parse_options({**LEAST, "endingOffsets": "latest"}).check_stream()
    with pytest.raises(InvalidInputError, match="endingTimestamp is only for batch reads"):
        parse_options({**LEAST, "endingTimestamp": "5"}).check_stream()
    with pytest.raises(InvalidInputError, match="maxBytesPerTrigger is supported only in streams"):
        parse_options({**LEAST, "maxBytesPerTrigger": "5"}).check_batch()
    with pytest.raises(InvalidInputError, match=r"minOffsetsPerTrigger requires Spark 4\.2"):
        parse_options({**LEAST, "minOffsetsPerTrigger": "5"}).check_stream(has_limits=False)
    both = parse_options({**LEAST, "startingOffsets": "earliest", "minPartitions": "3"})
    both.check_batch()
    both.check_stream()
    both.check_stream(has_limits=False)


def test_options_are_refused_when_they_are_those_of_a_table_in_a_catalog() -> None:
    table = {"url": "file:///x", "subscribe": "shop/orders", "provider": "headstream", "owner": "me", "option.url": "file:///x"}
    with pytest.raises(InvalidOptionError, match=r"CREATE TABLE .* is not supported.*CREATE TEMPORARY VIEW"):
        parse_options(table)
