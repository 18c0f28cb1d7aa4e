"""Commits of deletion vectors in a directory: what deltalake and a fresh reader find, conflicts, lost answers, checkpoints."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake

from headstream.errors import StorageError
from headstream.replicate.storage import delta_commit
from headstream.replicate.storage.data_files import write_data_files
from headstream.replicate.storage.delta_commit import Conflict, commit_rows
from headstream.replicate.storage.delta_log import LogSnapshot, Protocol, merge_on_read_refusal
from headstream.replicate.storage.table_files import create_file
from tests.support.crashes import fail_with
from tests.support.replicate.plain_engine import open_plain_engine
from tests.support.replicate.row_changes import change_rows, find_rows, ids_by_deltalake, live_ids, read_ids

ROWS = 20_000


def make_table(path: Path, **properties: str) -> LogSnapshot:
    """Make a table of two files, each with more rows than an inline vector can name."""
    for begin in (0, ROWS // 2):
        rows = pa.table({"id": pa.array(range(begin, begin + ROWS // 2), pa.int64())})
        write_deltalake(path, rows, mode="append", configuration=properties or None)
    return LogSnapshot.read(path)


def ids(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def test_commit_rows_deletes_and_adds_rows_as_deltalake_and_a_fresh_snapshot_read_them(tmp_path: Path) -> None:
    snapshot = make_table(tmp_path / "t")
    left = set(range(ROWS))
    for version, deleted in enumerate([{5}, set(range(0, ROWS, 3)), set(range(1, 9000)), {ROWS - 1}], 1):
        gone = deleted & left
        left = (left - gone) | {ROWS + version}
        assert change_rows(snapshot, gone, ids(ROWS + version), version) == version + 1
        assert ids_by_deltalake(tmp_path / "t") == read_ids(snapshot) == sorted(left)
        fresh = LogSnapshot.read(tmp_path / "t")
        assert (fresh.files, fresh.transactions, fresh.protocol) == (snapshot.files, {"app": version}, snapshot.protocol)
    assert len(list((tmp_path / "t").glob("*.bin"))) == 3, "the first vector is small: it is in the log"
    assert DeltaTable(tmp_path / "t").transaction_version("app") == 4


def test_commit_rows_keeps_every_digit_of_another_writers_statistics(tmp_path: Path) -> None:
    rows = pa.table(
        {"id": pa.array([1, 2]), "total": pa.array([Decimal("123456789012345678.91"), Decimal(0)], pa.decimal128(20, 2))}
    )
    write_deltalake(tmp_path / "t", rows)
    commit = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    exact = '"maxValues":{"total":123456789012345678.91}'  # as Spark writes it
    for action in actions:
        if "add" in action:
            action["add"]["stats"] = f'{{"numRecords":2,{exact},"minValues":{{"total":0.00}}}}'
    commit.write_text("".join(json.dumps(action) + "\n" for action in actions))
    snapshot = LogSnapshot.read(tmp_path / "t")
    change_rows(snapshot, {2}, None, 1)
    (file,) = LogSnapshot.read(tmp_path / "t").files.values()
    assert exact in file.action["stats"]


def test_commit_rows_removes_a_file_whose_rows_are_all_deleted(tmp_path: Path) -> None:
    snapshot = make_table(tmp_path / "t")
    change_rows(snapshot, {0}, None, 1)
    change_rows(snapshot, set(range(1, ROWS // 2)), None, 2)
    assert len(snapshot.files) == 1
    assert ids_by_deltalake(tmp_path / "t") == list(range(ROWS // 2, ROWS))


def test_commit_rows_refuses_rows_that_would_come_back_or_that_a_file_does_not_have(tmp_path: Path) -> None:
    snapshot = make_table(tmp_path / "t")
    change_rows(snapshot, {0, 1}, None, 1)
    (path, file) = next((path, file) for path, file in snapshot.files.items() if file.deleted)
    for positions in ([0], [0, 1], [0, 1, ROWS // 2]):
        removed = {path: np.array(positions, np.uint32)}
        with pytest.raises(StorageError, match="deleted rows"):
            commit_rows(snapshot, removed=removed, added=[], app_id="a", version=2, operation="MERGE", metrics={})
    assert LogSnapshot.read(tmp_path / "t").files[path] == file


def test_a_commit_that_another_writer_overtook_is_a_conflict_and_its_snapshot_has_the_other_commit(tmp_path: Path) -> None:
    first = make_table(tmp_path / "t")
    second = LogSnapshot.read(tmp_path / "t")
    found = find_rows(second, {7})
    change_rows(first, {7}, None, 1)
    own: Any = {"app_id": "b", "version": 1, "operation": "MERGE", "metrics": {}, "enable_deletion_vectors": True}
    with pytest.raises(Conflict):
        commit_rows(second, removed=found, added=[], **own)
    assert (second.version, second.files) == (first.version, first.files)
    assert not find_rows(second, {7})
    DeltaTable(tmp_path / "t").delete("id = 8")
    with pytest.raises(Conflict):
        change_rows(second, {9}, None, 1)
    change_rows(second, {9}, None, 1)
    assert ids_by_deltalake(tmp_path / "t") == [*range(7), *range(10, ROWS)]


def test_an_older_handle_of_deltalake_cannot_change_a_file_whose_vector_it_does_not_know(tmp_path: Path) -> None:
    snapshot = make_table(tmp_path / "t")
    stale = DeltaTable(tmp_path / "t")
    change_rows(snapshot, {7}, None, 1)
    with pytest.raises(Exception, match=r"(?i)conflict|transaction|metadata"):
        stale.delete("id = 8")
    assert ids_by_deltalake(tmp_path / "t") == [*range(7), *range(8, ROWS)]


@pytest.mark.parametrize("is_lost", ["refused", "failed"])
def test_a_commit_whose_answer_is_lost_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lost: str) -> None:
    """A store's client repeats the request, which finds its own object; or it gives up."""

    def lose(table: Path, path: str, content: bytes) -> bool:
        assert create_file(table, path, content)
        if is_lost == "failed":
            raise StorageError("no answer", where=path)
        return create_file(table, path, content)

    snapshot = make_table(tmp_path / "t")
    monkeypatch.setattr(delta_commit, "create_file", lose)
    assert change_rows(snapshot, {3}, ids(ROWS), 1) == 2
    assert snapshot.version == 2
    assert ids_by_deltalake(tmp_path / "t") == [*range(3), *range(4, ROWS + 1)]


def test_a_commit_that_the_store_did_not_take_is_an_error_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_table: Path, path: str, _content: bytes) -> bool:
        raise StorageError("the store is down", where=path)

    snapshot = make_table(tmp_path / "t")
    with monkeypatch.context() as patch:
        patch.setattr(delta_commit, "create_file", fail)
        with pytest.raises(StorageError, match="down"):
            change_rows(snapshot, {3}, ids(ROWS), 1)
    assert ids_by_deltalake(tmp_path / "t") == list(range(ROWS))
    change_rows(snapshot, {3}, None, 1)
    assert read_ids(LogSnapshot.read(tmp_path / "t")) == [*range(3), *range(4, ROWS)]
    assert not list((tmp_path / "t/_delta_log").glob(".*")), "no temporary file of a commit stays"


def test_a_snapshot_that_was_read_long_ago_is_read_again_before_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its next commits may have been deleted since: a commit of such a number would be none of the table's."""
    snapshot = make_table(tmp_path / "t")
    other = LogSnapshot.read(tmp_path / "t")
    for version in (1, 2):
        change_rows(other, {version}, None, version)
    DeltaTable(tmp_path / "t").create_checkpoint()
    for version in range(3):
        (tmp_path / f"t/_delta_log/{version:020d}.json").unlink()
    monkeypatch.setattr(delta_commit, "_LONGEST_AGE_S", 0)
    with pytest.raises(Conflict):
        change_rows(snapshot, {0}, None, 3)
    assert snapshot.version == 3
    change_rows(snapshot, {0}, None, 3)
    assert ids_by_deltalake(tmp_path / "t") == list(range(3, ROWS))


def test_checkpoints_are_written_at_the_tables_interval_and_have_all_that_commits_had(tmp_path: Path) -> None:
    snapshot = make_table(tmp_path / "t", **{"delta.checkpointInterval": "4"})
    for version in range(1, 9):
        change_rows(snapshot, {*range(version * 1000, version * 1000 + 300)}, ids(ROWS + version), version)
    names = {file.name for file in (tmp_path / "t/_delta_log").glob("*.checkpoint.parquet")}
    assert names == {f"{version:020d}.checkpoint.parquet" for version in (4, 8)}
    for version in range(9):
        (tmp_path / f"t/_delta_log/{version:020d}.json").unlink()
    fresh = LogSnapshot.read(tmp_path / "t")
    assert (fresh.files, fresh.transactions, fresh.protocol) == (snapshot.files, snapshot.transactions, snapshot.protocol)
    assert ids_by_deltalake(tmp_path / "t") == read_ids(fresh) == read_ids(snapshot)


def test_files_of_a_writer_that_ended_before_its_commit_are_vacuumed_and_live_vectors_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = make_table(tmp_path / "t")
    change_rows(snapshot, {*range(0, ROWS, 7)}, None, 1)
    with monkeypatch.context() as patch:
        patch.setattr(delta_commit, "create_file", fail_with(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            change_rows(snapshot, {*range(0, ROWS, 5)} - {*range(0, ROWS, 7)}, ids(ROWS), 2)
    files = {file.name for file in (tmp_path / "t").glob("*.*")}
    open_plain_engine(tmp_path / "t").vacuum(0)
    assert len(files) - len(list((tmp_path / "t").glob("*.*"))) == 2, "a data file and a file of vectors"
    assert ids_by_deltalake(tmp_path / "t") == [number for number in range(ROWS) if number % 7]


@pytest.mark.parametrize("damage", ["missing", "bytes", "length", "count"])
def test_a_damaged_vector_is_an_error_that_names_its_file(tmp_path: Path, damage: str) -> None:
    snapshot = make_table(tmp_path / "t")
    change_rows(snapshot, {*range(0, ROWS, 7)}, None, 1)
    (file,) = (tmp_path / "t").glob("*.bin")
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    elif damage == "bytes":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    elif damage == "length":
        file.write_bytes(content[: len(content) // 2])
    else:
        commit = tmp_path / f"t/_delta_log/{2:020d}.json"
        commit.write_text(commit.read_text().replace('"cardinality":1429', '"cardinality":1428'))
    with pytest.raises(StorageError) as caught:
        read_ids(LogSnapshot.read(tmp_path / "t"))
    assert file.name in str(caught.value)


def test_statistics_prune_no_file_whose_rows_match(tmp_path: Path) -> None:
    """Of all types, by deltalake: each value of each row is found by its column, in a table of one file a row."""
    moment = datetime.datetime(2024, 1, 1, 1, 2, 3, 456789, datetime.UTC)
    long = "x" * 31
    values: dict[str, tuple[pa.DataType, list[Any]]] = {
        "i": (pa.int64(), [-(2**63), 2**63 - 1, None]),
        "b": (pa.int8(), [-128, 127, 0]),
        "s": (pa.string(), [long + "\U0010ffff\U0010ffff", long + "yz", ""]),
        "d": (pa.decimal128(10, 2), [Decimal("-0.07"), Decimal("99999999.99"), None]),
        "n": (pa.decimal128(20, 0), [Decimal(2**64 - 1), Decimal(0), Decimal(-5)]),
        "w": (pa.decimal128(38, 10), [Decimal("1234567890123456.0123456789"), None, Decimal(1)]),
        "f": (pa.float64(), [float("inf"), 0.1, -1e300]),
        "t": (
            pa.timestamp("us", "UTC"),
            [moment, moment + datetime.timedelta(microseconds=1), datetime.datetime.max.replace(tzinfo=datetime.UTC)],
        ),
        "u": (pa.timestamp("us"), [moment.replace(tzinfo=None)] * 3),
        "y": (pa.date32(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None]),
        "k": (pa.bool_(), [True, False, None]),
        "c": (pa.binary(), [b"\0\xff", b"", None]),
    }
    rows = pa.table({name: pa.array(column, kind) for name, (kind, column) in values.items()})
    write_deltalake(tmp_path / "t", rows.slice(0, 0))
    snapshot = LogSnapshot.read(tmp_path / "t")
    assert merge_on_read_refusal(snapshot) is None
    added = [file for row in range(rows.num_rows) for file in write_data_files(snapshot, rows.slice(row, 1))]
    commit_rows(snapshot, removed={}, added=added, app_id="a", version=1, operation="MERGE", metrics={})
    query = QueryBuilder().register("t", DeltaTable(tmp_path / "t"))
    whole = pa.table(query.execute("SELECT * FROM t").read_all())
    assert whole.cast(rows.schema).sort_by("i").equals(rows.sort_by("i"))
    for name, (kind, column) in values.items():
        for value in {text for text in column if text is not None}:
            literal = pa.array([value], kind).cast(pa.string())[0] if not pa.types.is_binary(kind) else None
            where = (
                f"{name} = arrow_cast('{literal}', '{_name_of(kind)}')" if literal is not None else f"{name} = X'{value.hex()}'"
            )
            found = pa.table(query.execute(f"SELECT count(*) AS n FROM t WHERE {where}").read_all())
            assert found["n"][0].as_py() == column.count(value), where


def _name_of(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"Decimal128({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        return 'Timestamp(Microsecond, Some("UTC"))' if kind.tz else "Timestamp(Microsecond, None)"
    return {"int64": "Int64", "int8": "Int8", "string": "Utf8", "double": "Float64", "date32[day]": "Date32", "bool": "Boolean"}[
        str(kind)
    ]


def test_write_data_files_gives_each_partition_its_files_with_values_as_deltalake_spells_them(tmp_path: Path) -> None:
    """The same rows by deltalake and by us: the same partitions, and the same rows in each."""
    city = ["Zürich", "a/b c%", "", None, "x" * 300, "Zürich"]
    day = [datetime.date(2024, 1, 1), None, datetime.date(2024, 1, 2), None, None, datetime.date(2024, 1, 1)]
    rows = pa.table(
        {"id": pa.array(range(6), pa.int64()), "city": city, "day": day, "kept": [True, None, False, True, True, True]}
    )
    short = rows.filter(pa.compute.is_in(rows["id"], pa.array([4])), null_selection_behavior="drop")
    write_deltalake(
        tmp_path / "t", rows.filter(pa.array([number != 4 for number in range(6)])), partition_by=["city", "day", "kept"]
    )
    snapshot = LogSnapshot.read(tmp_path / "t")
    expected = sorted(str(sorted(file.partition_values.items())) for file in snapshot.files.values())
    added = write_data_files(snapshot, rows.filter(pa.array([number != 4 for number in range(6)])))
    assert sorted(str(sorted(file.partition_values.items())) for file in added) == expected
    added += write_data_files(snapshot, short)
    commit_rows(snapshot, removed={}, added=added, app_id="a", version=1, operation="MERGE", metrics={})
    query = QueryBuilder().register("t", DeltaTable(tmp_path / "t"))
    whole = pa.table(query.execute("SELECT * FROM t ORDER BY id").read_all()).select(rows.column_names).cast(rows.schema)
    twice = pa.concat_tables([rows, rows]).sort_by("id").filter(pa.array([number != 8 for number in range(12)]))
    assert whole.sort_by("id").equals(twice)


@pytest.mark.parametrize(
    ("writer", "reader", "features"),
    [
        (2, 1, {"appendOnly", "invariants"}),
        (4, 1, {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"}),
        (7, 3, {"timestampNtz"}),
    ],
)
def test_a_table_that_gets_deletion_vectors_lists_the_features_that_its_version_implied(
    writer: int, reader: int, features: set[str]
) -> None:
    listed = tuple(features) if writer == 7 else None
    action = Protocol(reader, writer, listed, listed).action_with_vectors
    assert set(action["writerFeatures"]) == {*features, "deletionVectors"}
    assert set(action["readerFeatures"]) == {*(features if writer == 7 else ()), "deletionVectors"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"configuration": {"delta.enableChangeDataFeed": "true"}}, "change data feed"),
        ({"configuration": {"delta.columnMapping.mode": "name"}}, "column mapping"),
        ({"configuration": {"delta.constraints.a": "id > 0"}}, "constraints"),
        ({"configuration": {"delta.appendOnly": "true"}}, "appendOnly"),
        ({"writerFeatures": ["clustering", "domainMetadata", "rowTracking"]}, "clustering, domainMetadata, rowTracking"),
        ({"writerFeatures": ["v2Checkpoint"]}, "v2Checkpoint"),
        ({"writerFeatures": ["inCommitTimestamp"]}, "inCommitTimestamp"),
        ({"field": {"delta.generationExpression": "id + 1"}}, "generated"),
        ({"field": {"delta.invariants": "{}"}}, "invariants"),
        ({"path": "file:/elsewhere/a.parquet"}, "shallow clone"),
        ({"path": "p=New%20York/a.parquet"}, "partitions whose values are escaped"),
        ({"partition": "double"}, "partitions by p"),
        ({"configuration": {"delta.checkpointInterval": "5"}, "writerFeatures": ["timestampNtz", "appendOnly"]}, None),
    ],
)
def test_merge_on_read_refusal_names_what_our_commits_would_not_obey(
    tmp_path: Path, change: dict[str, Any], reason: str | None
) -> None:
    field = {"name": "p", "type": change.get("partition", "string"), "nullable": True, "metadata": change.get("field", {})}
    features = {"readerFeatures": [], "writerFeatures": change["writerFeatures"]} if "writerFeatures" in change else {}
    actions = [
        {"protocol": {"minReaderVersion": 3 if features else 1, "minWriterVersion": 7 if features else 2, **features}},
        {
            "metaData": {
                "id": "t",
                "schemaString": json.dumps({"type": "struct", "fields": [field]}),
                "partitionColumns": ["p"] if "partition" in change else [],
                "configuration": change.get("configuration", {}),
            }
        },
        {"add": {"path": change.get("path", "a.parquet"), "partitionValues": {}, "size": 1}},
    ]
    log = tmp_path / "t/_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020d}.json").write_text("\n".join(map(json.dumps, actions)))
    found = merge_on_read_refusal(LogSnapshot.read(tmp_path / "t"))
    assert found is None if reason is None else reason in str(found)


def test_deleted_rows_are_read_once(tmp_path: Path) -> None:
    """A snapshot keeps the vectors that it wrote or read: a merge needs no file of them again."""
    snapshot = make_table(tmp_path / "t")
    change_rows(snapshot, {*range(0, ROWS, 7)}, None, 1)
    fresh = LogSnapshot.read(tmp_path / "t")
    expected = read_ids(fresh)
    for file in (tmp_path / "t").glob("*.bin"):
        file.unlink()
    assert read_ids(snapshot) == read_ids(fresh) == expected
    assert all(live_ids(snapshot, file) for file in snapshot.files.values())
