"""Replicate messages over HTTP: decoded by the schema store of a real pipeline, for who may see both, up to a limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headstream as hs
from headstream.cli.shared.checkpoints import explain_by
from headstream.cli.shared.schemas import open_schemas
from headstream.core.codec.binary import encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.topology import NewTopic
from headstream.errors import InvalidInputError, InvalidOptionError
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.run.report import PipelineReport
from headstream.replicate.run.status import note_status
from headstream.server.http.pipeline_reports import PipelineReports
from tests.support.replicate.pipeline_work import Work
from tests.support.replicate.replicate_messages import make_change, make_table
from tests.support.server.http_servers import Http, serving
from tests.unit.server.http.test_overview import log_in, rights

CDC = TopicName.parse("cdc/data")
KNOWN, UNKNOWN = make_table(schema_id="1" * 32), make_table(schema_id="2" * 32)
PAYLOADS = (
    data_message(KNOWN, make_change(7)),
    data_message(UNKNOWN, make_change(8)),
    metadata_message(UNKNOWN),
    b"not a message",
    data_message(KNOWN, make_change(9))[:-3],
    b"atMSG" + bytes(1 << 20),
    None,
)


def path_of(offset: int) -> str:
    return f"/streams/cdc/topics/data/partitions/1/messages/{offset}/explained"


def fill(http: Http) -> None:
    http.dispatcher.broker.topics.create(NewTopic(CDC, 1, hs.Limits.WIDE))
    http.dispatcher.broker.messages.send(CDC, 1, encode_sent([hs.Message(payload=payload) for payload in PAYLOADS]))


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Work]:
    made = Work(tmp_path)
    made.send(metadata_message(KNOWN))
    note_status(made.ledger, "running", made.summary, made.schema_store.directory, made.now_us)
    yield made
    made.close()


@pytest.fixture
def http(work: Work) -> Iterator[Http]:
    report = PipelineReport(lambda: work.config.state_directory)
    reports = PipelineReports({"/data/shop": report.read}, needs_right=True, explain=explain_by([report]))
    with serving(pipelines=reports) as served:
        fill(served)
        yield served


def test_a_message_is_decoded_by_the_schema_that_a_pipeline_knows(http: Http) -> None:
    found = http.call("GET", path_of(0)).json
    assert (found["form"], found["type"], found["operation"], found["fault"]) == ("avro", "DT", "INSERT", None)
    assert found["table"] == "shop.kit"
    assert found["data"]["id"] == 7
    assert found["present"] is None
    assert http.call("GET", path_of(2)).json["columns"][0]["name"] == "id"


def test_what_cannot_be_decoded_says_why(http: Http) -> None:
    unknown = http.call("GET", path_of(1)).json
    assert "data" not in unknown
    assert unknown["note"] == f"unknown schema: no registered pipeline has received it ({'2' * 32})"
    assert "not a Replicate message" in http.call("GET", path_of(3)).json["fault"]
    assert http.call("GET", path_of(4)).json["fault"]
    assert http.call("GET", path_of(6)).status == 404
    assert http.call("GET", path_of(99)).status == 404


def test_a_schema_that_arrives_later_is_found(http: Http, work: Work) -> None:
    assert "data" not in http.call("GET", path_of(1)).json
    work.send(metadata_message(UNKNOWN))
    assert http.call("GET", path_of(1)).json["data"]["id"] == 8


def test_a_message_beyond_the_limit_is_refused(http: Http) -> None:
    answer = http.call("GET", path_of(5))
    assert answer.status == 400
    assert "exceeds the limit" in answer.json["reason"]


def test_decoding_needs_the_right_to_the_message_and_to_the_server(http: Http) -> None:
    reader = log_in(http, "reader", {"global": rights(read_streams=True, poll_messages=True), "streams": None})
    assert http.call("GET", path_of(0), token=reader).status == 403
    watcher = log_in(http, "watcher", {"global": rights(read_servers=True), "streams": None})
    assert http.call("GET", path_of(0), token=watcher).status in (403, 404)
    both = {"global": rights(read_streams=True, poll_messages=True, read_servers=True), "streams": None}
    assert http.call("GET", path_of(0), token=log_in(http, "both", both)).json["data"]["id"] == 7


def test_without_pipelines_decoding_is_refused_with_a_reason() -> None:
    with serving() as http:
        fill(http)
        answer = http.call("GET", path_of(0))
    assert answer.status >= 400
    assert "no Replicate pipeline is registered" in answer.json["reason"]


def test_avro_is_decoded_for_whoever_may_read_the_message(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]}')
    decoding = PipelineReports({}, needs_right=True, explain_avro=open_schemas(str(tmp_path), "--schemas"))
    with serving(pipelines=decoding) as http:
        fill(http)
        http.dispatcher.broker.messages.send(CDC, 1, encode_sent([hs.Message(payload=b"\0\0\0\0\x07\x0e")]))
        reader = log_in(http, "reader", {"global": rights(read_streams=True, poll_messages=True), "streams": None})
        found = http.call("GET", path_of(len(PAYLOADS)), token=reader).json
        assert (found["type"], found["value"], found["fault"]) == ("R", {"id": 7}, None)
        named = hs.Message(payload=b"\x0e", headers=hs.Headers({"__value_schema_id": hs.raw(b"\0\0\0\0\x07")}))
        http.dispatcher.broker.messages.send(CDC, 1, encode_sent([named]))
        by_header = http.call("GET", path_of(len(PAYLOADS) + 1), token=reader).json
        assert by_header == {**found, "size_bytes": 1}
        assert http.call("GET", path_of(0), token=reader).status == 403  # of Replicate
        assert http.call("GET", "/console/session", token=reader).json["decodes_avro"] is True
        nobody = log_in(http, "nobody", {"global": rights(), "streams": None})
        assert http.call("GET", path_of(len(PAYLOADS)), token=nobody).status in (403, 404)


@pytest.mark.parametrize("place", ["/nowhere/at/all", "ftp://registry", "http://user:password@registry"])
def test_schemas_of_an_impossible_place_are_refused(place: str) -> None:
    with pytest.raises((InvalidInputError, InvalidOptionError), match=r"headstream\.schemas"):
        open_schemas(place, "headstream.schemas")
