"""Pipelines on Azure's, Google's and HDFS' storage: servers in processes of their own."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

from headstream.cli.replicate.command import replicate
from headstream.connect import connect
from headstream.errors import ReplicateError, StorageError
from headstream.replicate.checkpoint.reading import CheckpointReader
from headstream.replicate.codec import ColumnMetadata, data_message
from headstream.replicate.decoding.decode import Decoder, decode_partitions
from headstream.replicate.decoding.decoded import Decoded
from headstream.replicate.decoding.mask_orders import MaskOrders
from headstream.replicate.inputs.inputs import add_declared_schemas
from headstream.replicate.run.pipeline import StoredMetrics
from headstream.replicate.schemas.schema_catalog import DecodeOptions
from headstream.replicate.schemas.schema_store import SchemaStore, StoredSchema, check_schema_store, table_id
from headstream.replicate.storage.delta_places import open_table
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_check import check_stores
from headstream.replicate.storage.store_files import StoreFiles
from headstream.replicate.tables.tables import table_path
from headstream.testing import SHOP_TABLES, SourceDatabase, digest_rows
from tests.campaigns.test_replicate_delivery import deliver
from tests.support.crashes import fail_with
from tests.support.killed_jobs import Job
from tests.support.replicate.kit_table import KIT, MAINTAINED, METADATA, SHARED, change, check_maintenance, check_table_name, ids
from tests.support.replicate.pipeline_work import SECOND_US, Work
from tests.support.replicate.replicate_messages import make_change, make_table, raw_messages
from tests.support.replicate.row_changes import check_commits
from tests.support.replicate.store_servers import SERVERS, StoreServer

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]  # the servers are installed by tools/install_nightly_tools.sh


@pytest.fixture(scope="module", params=list(SERVERS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def place(server: StoreServer, tmp_path: Path) -> StorePlace:
    return server.place(tmp_path.name, retry_us=SECOND_US)


def make_work(directory: Path, place: StorePlace, **options: Any) -> Work:
    own: dict[str, Any] = {"tables": place / "tables", "checkpoint": place / "checkpoint", "change_tables": place / "changes"}
    return Work(directory, **(own | {"storage": place.storage} | options))


@pytest.mark.parametrize(("seed", "scd_type"), [(71, 1), (72, 2)])
def test_tables_equal_the_source_when_every_crash_loses_the_machines_disk(
    place: StorePlace, tmp_path: Path, seed: int, scd_type: Any
) -> None:
    deliver(tmp_path, seed, crashes=3, scd_type=scd_type, place=place, checkpoint=place / "checkpoint")


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(1000, 1012))
def test_tables_equal_the_source_for_long(place: StorePlace, tmp_path: Path, seed: int) -> None:
    deliver(tmp_path, seed, crashes=6, scd_type=2 if seed % 2 else 1, place=place, checkpoint=place / "checkpoint")


def test_the_first_driver_is_fenced_when_a_second_one_takes_the_checkpoint_over(place: StorePlace, tmp_path: Path) -> None:
    first = make_work(tmp_path / "first", place)
    first.send(METADATA, change(1))
    second = make_work(tmp_path / "second", place)
    with pytest.raises(ReplicateError, match="another process has taken over the checkpoint"):
        first.process(first.raw([change(2)]), 1)
    second.process(first.raw([change(3)]), 1)
    with pytest.raises(ReplicateError, match="another process has taken over the checkpoint"):
        first.process(first.raw([change(4)]), 2)
    assert ids(second) == ids(second, changes=True) == [1, 3]
    first.close()
    second.close()


def test_of_processes_that_create_or_replace_an_object_at_once_one_does(place: StorePlace) -> None:
    files = StoreFiles(place / "one")
    assert files.read() is None
    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(lambda number: StoreFiles(place / "one").create(b"%d" % number), range(24))) == 1
        found = files.read()
        assert found is not None
        assert sum(threads.map(lambda number: StoreFiles(place / "one").replace(b"a%d" % number, found[1]), range(24))) == 1
    now = files.read()
    assert now is not None
    assert now[0].startswith(b"a")
    assert not files.replace(b"late", found[1])
    files.write(b"")
    assert (files.read() or (None,))[0] == b""
    files.remove()
    files.remove()
    assert not StoreFiles(place).has_any(), "nothing else is left"


def test_a_file_of_hdfs_is_there_after_a_replacement_that_ended_halfway(
    server: StoreServer, place: StorePlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.scheme != "hdfs":
        pytest.skip("an object of other stores is replaced by one request")
    from headstream.replicate.storage import hdfs

    files = StoreFiles(place / "one")
    assert files.create(b"old")
    found = files.read()
    assert found is not None
    with monkeypatch.context() as patch:
        patch.setattr(hdfs._HdfsClient, "_move", fail_with(OSError("the process ends")))
        with pytest.raises(StorageError, match="the process ends"):
            files.replace(b"new", found[1])
    assert StoreFiles(place).names() == []
    assert files.read() == found
    assert files.replace(b"new", found[1])
    assert (files.read() or (None,))[0] == b"new"


def test_objects_are_listed_in_order_with_those_of_deeper_levels(place: StorePlace) -> None:
    for name in ("b", "a/x", "c", "a b/ü%20"):
        StoreFiles(place / name).write(b"1")
    assert StoreFiles(place).names() == ["a b/ü%20", "a/x", "b", "c"]
    assert StoreFiles(place).names("b") == ["c"]
    assert sorted(StoreFiles(place).folders()) == ["a", "a b"]
    assert (StoreFiles(place / "a").has_any(), StoreFiles(place / "d").has_any()) == (True, False)
    assert (StoreFiles(place / "d").names(), StoreFiles(place / "d").folders()) == ([], [])


def test_a_second_pipeline_is_refused_by_name_unless_it_takes_the_table_over(place: StorePlace, tmp_path: Path) -> None:
    first = make_work(tmp_path / "one", place, checkpoint=tmp_path / "one" / "c")
    second = make_work(tmp_path / "two", place, checkpoint=tmp_path / "two" / "c")
    first.send(METADATA, change(1))
    second.send(METADATA, change(2))
    assert "another pipeline writes to the table" in second.processor.health.failing[SHARED].reason
    second.options["take_over"] = True
    second.restart()
    second.now_us += 60 * SECOND_US
    second.processor.sweep(last=True)
    first.send(change(3))
    assert ids(second) == [1, 2]
    assert first.processor.health.failing.keys() == {SHARED}
    first.close()
    second.close()


def test_maintenance_leaves_the_owner_and_the_needed_files(place: StorePlace, tmp_path: Path) -> None:
    check_maintenance(make_work(tmp_path, place, **MAINTAINED), tmp_path)


def test_rows_are_deleted_by_vectors_in_commits_that_one_writer_makes(place: StorePlace) -> None:
    check_commits(place / "vectors")


@pytest.mark.parametrize("name", ["a b", "x+y@z~$", "..", "München", "%41", "n" * 300])
def test_a_table_of_any_name_is_written_and_found_again(place: StorePlace, tmp_path: Path, name: str) -> None:
    check_table_name(make_work(tmp_path, place), name)


def test_check_stores_takes_a_store_and_leaves_nothing_there(place: StorePlace) -> None:
    check_stores([place], read=place)
    assert not StoreFiles(place).has_any()


def test_check_stores_names_what_was_tried_and_what_to_set_when_a_store_is_unreachable(server: StoreServer) -> None:
    with pytest.raises(StorageError, match=r"the object store cannot be used: .*Connection refused") as caught:
        check_stores([server.unreachable])
    text = str(caught.value)
    assert "127.0.0.1:1" in text
    assert "HADOOP_USER_NAME" in text or "[storage]" in text
    assert not any(secret in text for secret in server.secrets)


def test_check_stores_refuses_wrong_credentials_or_a_bucket_that_does_not_exist(server: StoreServer, tmp_path: Path) -> None:
    if server.scheme == "abfss":
        wrong = server.place(tmp_path.name, account_key="d3Jvbmc=")
        with pytest.raises(StorageError, match=r"403 Forbidden.*credentials account_key of \[storage\]") as caught:
            check_stores([wrong])
        assert "d3Jvbmc=" not in str(caught.value)
        missing = replace(server.place("x"), bucket="nowhere@acme1.dfs.core.windows.net")
    elif server.scheme == "gs":
        missing = replace(server.place("x"), bucket="nowhere")
    else:
        pytest.skip("HDFS without Kerberos has no credentials, and no buckets")
    with pytest.raises(StorageError, match=r"the object store cannot be used: .*(ContainerNotFound|not found)"):
        check_stores([missing])


def test_a_pipeline_works_with_a_zone_in_a_store(place: StorePlace, tmp_path: Path) -> None:
    work = make_work(tmp_path, place, zone=place / "zone")
    work.send(METADATA, change(1))
    work.restart()
    work.send(change(2))
    assert (ids(work), work.ledger.waiting().count) == ([1, 2], 0)
    assert StoreFiles(place / "zone").names() == [f"{KIT.schema_id}.json"]
    work.close()


def test_schemas_in_a_store_are_seen_by_every_process(place: StorePlace, tmp_path: Path) -> None:
    first = SchemaStore(tmp_path / "one", place=place)
    second = SchemaStore(tmp_path / "two", place=place)
    assert second.find(KIT.schema_id) is None
    assert first.add(StoredSchema(KIT, 1, "cdc/metadata", 0, 1))
    assert not SchemaStore(tmp_path / "three", place=place).add(StoredSchema(KIT, 2, "cdc/metadata", 0, 2)), "the first one stays"
    assert second.find(KIT.schema_id) is not None, "the list is asked for the first time"
    other = make_table(schema_id="2" * 32, table="part")
    first.add(StoredSchema(other, 3, "cdc/metadata", 0, 3))
    assert second.find(table_id("shop", "part")) is None
    second._objects.expire()  # type: ignore[union-attr]
    found = second.find(table_id("shop", "part"))
    assert found is not None
    assert (found.metadata, found.offset) == (other, 3)
    newer = make_table(*KIT.columns, ColumnMetadata("note", 3, "WSTRING", 20), schema_id="3" * 32, table_version=2)
    row = b'{"data": {"id": 1, "name": "n", "note": "x"}, "headers": {"operation": "INSERT", "changeSequence": "%035d"}}' % 1
    options = DecodeOptions(topic_tables={"cdc/data": "shop.kit"})
    decode = decode_partitions(SchemaStore(tmp_path / "one", place=place), options)

    def task() -> Decoded:
        return Decoded.from_table(pa.Table.from_batches(list(decode(iter([raw_messages([row])])))))

    assert task().waiting[0]["schema_id"].to_pylist() == ["table:shop/kit?after=1"], "the row waits for a newer schema"
    assert first.add(StoredSchema(newer, 4, "cdc/metadata", 0, 4))
    assert task().changes.keys() == {newer.schema_id}, "the next task sees what the driver has stored before it"
    check_schema_store(tmp_path / "nowhere", first.mark(), place)
    assert second.mark() == first.mark()
    with pytest.raises(StorageError, match="cannot access the driver's schema store: found another schema store"):
        check_schema_store(tmp_path, "x", place)


def test_a_byte_order_that_one_executor_has_decided_is_kept_in_the_store_for_all(place: StorePlace, tmp_path: Path) -> None:
    """Each executor has its own copy of the schemas: without the order, masks that fit both orders are read in the wrong one."""
    others = (ColumnMetadata(f"c{ordinal}", ordinal, "INT4") for ordinal in range(2, 17))
    table = make_table(ColumnMetadata("c1", 1, "INT4", primary_key_position=1), *others)
    proof = data_message(table, make_change(1, "UPDATE", data={"c1": 1, "c2": 2}, column_mask=b"\x00\x03"))
    of_both = data_message(table, make_change(2, "UPDATE", data={"c1": 1, "c9": 9, "c10": None}, column_mask=b"\x03\x01"))
    SchemaStore(tmp_path / "one", place=place).add(StoredSchema(table, 1, "cdc/metadata", 0, 1))

    def masks(machine: str, *values: bytes) -> list[bytes]:
        decoder = Decoder(SchemaStore(tmp_path / machine, place=place))
        decoded = decoder.decode(raw_messages(values))
        return [mask for batches in decoded.changes.values() for batch in batches for mask in batch["_hs_columns"].to_pylist()]

    assert masks("one", of_both) == [b"\x03\x01"], "undecided: as the guide of Replicate says"
    assert masks("one", proof, of_both) == [b"\x03\x00", b"\x01\x03"]
    assert masks("two", of_both) == [b"\x01\x03"]
    now = [0.0]
    orders = MaskOrders(tmp_path / "three", place / "other", lambda: now[0])
    assert orders.find(table.lineage) is None
    assert MaskOrders(tmp_path / "four", place / "other").decide(table.lineage, "big") == "big"
    assert MaskOrders(tmp_path / "five", place / "other").decide(table.lineage, "little") == "big", "the first one stays"
    assert orders.find(table.lineage) is None, "the store is not asked for each batch"
    now[0] = 6
    assert orders.find(table.lineage) == "big"


def test_a_zone_in_a_directory_is_moved_to_a_store(place: StorePlace, tmp_path: Path) -> None:
    SchemaStore(tmp_path / "zone").add(StoredSchema(KIT, 1, "cdc/metadata", 0, 1))
    MaskOrders(tmp_path / "zone").decide(KIT.lineage, "big")
    assert SchemaStore(tmp_path / "zone", place=place).scan() == 1
    assert MaskOrders(tmp_path / "zone", place).find(KIT.lineage) == "big"
    assert MaskOrders(tmp_path / "elsewhere", place).find(KIT.lineage) == "big"
    found = SchemaStore(tmp_path / "elsewhere", place=place).find(KIT.schema_id)
    assert found is not None
    assert found.metadata == KIT


def test_declared_schemas_are_read_from_a_store(place: StorePlace, tmp_path: Path) -> None:
    StoreFiles(place / "kit.json").write(KIT.to_json().encode())
    StoreFiles(place / "readme.txt").write(b"not a schema")
    zone = SchemaStore(tmp_path)
    assert add_declared_schemas(zone, place, 1) == 1
    found = zone.find(KIT.schema_id)
    assert found is not None
    assert found.topic == f"{place}/kit.json"


def test_metrics_are_written_to_a_store_at_most_every_ten_seconds(place: StorePlace, server: StoreServer) -> None:
    now = [0.0]
    metrics = StoredMetrics(place / "cdc.prom", lambda: now[0])
    files = StoreFiles(place / "cdc.prom")
    for text, moment, is_last, expected in (
        ("a", 0.0, False, b"a"),
        ("b", 9.0, False, b"a"),
        ("c", 10.0, False, b"c"),
        ("d", 11.0, True, b"d"),
    ):
        now[0] = moment
        metrics.write(text, is_last=is_last)
        assert (files.read() or (None,))[0] == expected
    StoredMetrics(server.unreachable).write("a", is_last=True)  # a warning


def test_nothing_that_a_pipeline_writes_has_the_credentials(place: StorePlace, server: StoreServer, tmp_path: Path) -> None:
    work = make_work(tmp_path, place)
    work.send(METADATA, change(1))
    work.close()
    copy = tmp_path / "copy"
    CheckpointReader(place / "checkpoint", copy).refresh()
    contents = [path.read_bytes() for path in copy.rglob("*") if path.is_file()]
    contents += [(StoreFiles(place / name).read() or (b"",))[0] for name in StoreFiles(place).names()]
    assert len(contents) > 10
    assert not any(secret.encode() in content for secret in server.secrets for content in contents)
    assert not any(secret in repr(place) + repr(work.config) + json.dumps(str(place)) for secret in server.secrets)


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("engine", ["deltalake", pytest.param("spark", marks=pytest.mark.soak)])
def test_runs_of_the_command_continue_on_machines_with_empty_disks(
    server: StoreServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    for name, value in server.variables.items():
        monkeypatch.setenv(name, value)
    place = server.place(f"{tmp_path.name}-{engine}")
    url = (tmp_path / "log").as_uri()
    source = SourceDatabase(5, tables=[table for table in SHOP_TABLES if table.name == "customers"], rows=20, transactions=20)
    messages = list(source.capture())
    config = tmp_path / "pipeline.toml"
    names = ("tables", "change_tables", "dead_letter_table", "checkpoint", "zone", "metrics")
    lines = [f'{name} = "{place}/{name}"' for name in names]
    config.write_text("\n".join([f'source = "{url}"\ntopics = ["cdc/all"]', *lines, f'[defaults]\nengine = "{engine}"\n']))
    with connect(url) as log:
        log.create_topic("cdc/all")
    half = len(messages) // 2
    summary: dict[str, Any] = {}
    for number, part in enumerate((messages[:half], messages[half:])):
        with connect(url) as log, log.producer("cdc/all") as producer:
            for message in part:
                producer.send(message.value, key=message.key, headers=message.headers)
        temporary = tmp_path / f"machine-{number}"
        temporary.mkdir()
        monkeypatch.setenv("TMPDIR", str(temporary))
        command = [sys.executable, "-m", "headstream.cli", "replicate", "run", "--config", str(config), "--once"]
        job = Job([*command, "--output", "json"], tmp_path)
        summary = json.loads(job.finish())
        assert (summary["failing"], summary["parked"], summary["messages"]) == ({}, 0, len(part))
        assert not any(secret in job.errors for secret in server.secrets)
    table = open_table(table_path(place / "tables", "SHOP", "customers"))
    assert table is not None
    metadata = next(iter(source.tables()))
    assert digest_rows(table.to_pyarrow_table().to_pylist(), metadata.key_columns) == source.digest("SHOP", "customers")
    metrics = StoreFiles(place / "metrics").read()
    assert metrics is not None
    assert metrics[0].endswith(b"# EOF\n")
    assert StoreFiles(place / "zone").names() != []
    status = CliRunner().invoke(replicate, ["status", "--config", str(config), "--output", "json"])
    assert json.loads(status.stdout)["state"] == "ended"
    seen = CliRunner().invoke(replicate, ["schemas", "--config", str(config), "--zone", f"{place}/zone", "--output", "json"])
    assert "SHOP.customers" in seen.stdout
