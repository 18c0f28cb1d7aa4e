from __future__ import annotations

import pickle

import pytest

from headstream.errors import InvalidInputError, InvalidOptionError, InvalidUrlError
from headstream.model.identifiers import TopicName
from headstream.spark.offsets import Place
from headstream.spark.options import COLUMN_NAMES, parse_options

LEAST = {"url": "file:///var/lib/shop", "subscribe": "shop/orders"}


def test_parse_options_has_a_default_for_all_but_url_and_topics() -> None:
    options = parse_options(LEAST)
    assert options.directory == "/var/lib/shop"
    assert options.topics == (TopicName("shop", "orders"),)
    assert (options.starting, options.ending, options.headers) == ("earliest", "latest", "variant")
    assert options.states == frozenset({1})
    assert options.columns == COLUMN_NAMES
    assert (options.max_offsets, options.min_partitions, options.fail_on_data_loss) == (None, None, True)


def test_parse_options_takes_names_in_any_case_when_spark_lowers_them() -> None:
    given = {
        "URL": "file://localhost/a%20b/",
        "subscribe": " shop/orders, shop/returns ",
        "startingoffsets": '{"shop/orders": {"1": 23, "2": -2}}',
        "endingOffsets": '{"shop/returns": {"1": -1}}',
        "HEADERS": "Binary",
        "Columns": "Payload, offset",
        "states": "poisoned, unknown(7)",
        "maxoffsetspertrigger": "100",
        "minPartitions": "4",
        "failOnDataLoss": "FALSE",
    }
    options = parse_options(given)
    assert options.directory == "/a b"
    assert [str(topic) for topic in options.topics] == ["shop/orders", "shop/returns"]
    assert options.starting == {Place("shop/orders", 1): 23, Place("shop/orders", 2): -2}
    assert options.ending == {Place("shop/returns", 1): -1}
    assert (options.headers, options.columns) == ("binary", ("payload", "offset"))
    assert options.states == frozenset({20, 7})
    assert (options.max_offsets, options.min_partitions, options.fail_on_data_loss) == (100, 4, False)
    assert pickle.loads(pickle.dumps(options)) == options


def test_parse_options_takes_the_path_of_load_for_the_url() -> None:
    assert parse_options({"path": "file:///x", "subscribe": "a/b"}).directory == "/x"


def test_parse_options_reads_every_state_when_states_is_all() -> None:
    assert parse_options({**LEAST, "states": "all"}).states is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**LEAST, "startingOffset": "latest"}, "Did you mean startingOffsets?"),
        ({**LEAST, "columns": "payload,size"}, "columns names 'size', which the source does not have"),
        ({**LEAST, "columns": "headers", "headers": "none"}, "which headers=none leaves out"),
        ({**LEAST, "columns": "key,key"}, "names a column twice"),
        ({**LEAST, "columns": " "}, "or none"),
        ({"subscribe": "a/b"}, "option url is missing"),
        ({"url": "file:///x"}, "option subscribe is missing"),
        ({**LEAST, "subscribe": " , "}, "option subscribe is missing"),
        ({**LEAST, "subscribe": "orders"}, "subscribe: 'orders' is not a topic"),
        ({**LEAST, "subscribe": "a/b,a/b"}, "names a topic twice"),
        ({**LEAST, "path": "file:///y"}, "both say what to read"),
        ({**LEAST, "startOffsets": "earliest"}, "unknown option 'startoffsets'"),
        ({**LEAST, "startingOffsets": "first"}, "startingOffsets cannot be read"),
        ({**LEAST, "startingOffsets": "[1]"}, "startingOffsets cannot be read"),
        ({**LEAST, "startingOffsets": '{"shop/orders": 5}'}, "startingOffsets cannot be read"),
        ({**LEAST, "startingOffsets": '{"shop/orders": {"1": -3}}'}, "-3 is no offset of shop/orders partition 1"),
        ({**LEAST, "startingOffsets": '{"shop/orders": {"1": true}}'}, "True is no offset"),
        ({**LEAST, "startingOffsets": '{"shop/returns": {"1": 5}}'}, "topic 'shop/returns', which subscribe does not"),
        ({**LEAST, "endingOffsets": "earliest"}, "endingOffsets=earliest"),
        ({**LEAST, "endingOffsets": '{"shop/orders": {"1": -2}}'}, "leaves nothing to read of shop/orders partition 1"),
        ({**LEAST, "headers": "map"}, "headers=map"),
        ({**LEAST, "states": "gone"}, "states: 'gone'"),
        ({**LEAST, "states": ","}, "names no state"),
        ({**LEAST, "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger=0"),
        ({**LEAST, "maxOffsetsPerTrigger": "many"}, "maxOffsetsPerTrigger=many"),
        ({**LEAST, "minPartitions": "-1"}, "minPartitions=-1"),
        ({**LEAST, "minPartitions": "1000000"}, "minPartitions=1000000"),
        ({**LEAST, "failOnDataLoss": "no"}, "failOnDataLoss=no"),
    ],
)
def test_parse_options_names_the_option_when_it_cannot_be_used(given: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidOptionError) as raised:
        parse_options(given)
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "url",
    ["kafka://host:9092", "headstream://host", "/var/lib/shop", "file://host/x", "file:x", "file:///x?y=1", "memory://"],
)
def test_parse_options_refuses_a_url_that_spark_cannot_read(url: str) -> None:
    with pytest.raises(InvalidUrlError) as raised:
        parse_options({"url": url, "subscribe": "a/b"})
    assert repr(url) in str(raised.value)


def test_options_refuse_in_a_batch_what_is_for_streams_and_the_other_way_round() -> None:
    with pytest.raises(InvalidInputError, match="maxOffsetsPerTrigger is for streams"):
        parse_options({**LEAST, "maxOffsetsPerTrigger": "5"}).check_batch()
    with pytest.raises(InvalidInputError, match="startingOffsets=latest"):
        parse_options({**LEAST, "startingOffsets": "latest"}).check_batch()
    with pytest.raises(InvalidInputError, match="endingOffsets is for batch reads"):
        parse_options({**LEAST, "endingOffsets": "latest"}).check_stream()
    both = parse_options({**LEAST, "startingOffsets": "earliest", "minPartitions": "3"})
    both.check_batch()
    both.check_stream()
