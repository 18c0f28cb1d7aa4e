"""The commands that look at a pipeline and ask it for something, beside the process that runs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from headstream.cli.replicate.command import replicate
from headstream.cli.shared.output import format_time
from headstream.connect import connect
from headstream.errors import InvalidInputError
from headstream.replicate.codec import data_message, metadata_message
from headstream.replicate.engines.deltalake import DeltaLakeEngine
from headstream.replicate.engines.engine import RowCounts
from headstream.replicate.run.status import note_status, note_targets
from headstream.replicate.run.summary import Summary
from headstream.replicate.settings.config import ReplicateConfig
from headstream.replicate.settings.table_settings import TableRule, TableRules
from headstream.testing import SourceDatabase
from tests.support.crashes import fail_to_write
from tests.support.replicate.pipeline_work import LINES, SECOND_US, Work, plain
from tests.support.replicate.replicate_messages import make_change, make_table


def run(work: Work, command: str, *arguments: str) -> Any:
    options = ["--checkpoint", str(work.config.checkpoint), "--output", "json"]
    result = CliRunner().invoke(replicate, [command, *options, *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_status_and_parked_name_failing_tables_and_mirrors_while_the_pipeline_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = SourceDatabase(41, rows=5, transactions=5)
    work = Work(tmp_path)
    monkeypatch.setattr(DeltaLakeEngine, "merge", fail_to_write)
    work.process(work.raw(message.value for message in plain(source)), 0)
    behind = {
        "table": "SHOP.tags",
        "name": "SHOP.tags",
        "delta_version": 4,
        "lag_seconds": 7.5,
        "refused": False,
        "reason": "no answer",
    }
    iceberg = {"tables": [behind], "waiting": 1}
    note_status(work.ledger, "running", work.summary, work.schema_store.directory, work.now_us, iceberg=iceberg)
    status = run(work, "status")
    assert [found["table"] for found in status["failing_tables"]] == ["SHOP.customers", "SHOP.order_lines"]
    assert status["waiting"] == status["parked"] == sum(message.role == "data" for message in plain(source))
    assert status["run"]["messages"] == len(plain(source))
    parked_batches = run(work, "parked", "--table", "SHOP.order_lines")
    assert {(parked_batch["waits_for"], parked_batch["table"]) for parked_batch in parked_batches} == {
        ("table", "SHOP.order_lines")
    }
    assert "no space left" in parked_batches[0]["reason"]
    table = CliRunner().invoke(replicate, ["status", "--checkpoint", str(work.config.checkpoint)], catch_exceptions=False)
    assert "SHOP.customers" in table.output
    assert "1 tables, 1 behind" in table.output
    assert any("SHOP.tags" in line and "7.5" in line and "no answer" in line for line in table.output.splitlines())
    work.close()


def test_schemas_shows_what_the_zone_has(tmp_path: Path) -> None:
    work = Work(tmp_path)
    work.process(work.raw(message.value for message in plain(SourceDatabase(42, rows=1, transactions=1))), 0)
    assert {row["table"] for row in run(work, "schemas")} == {"SHOP.customers", "SHOP.order_lines"}
    rows = run(work, "schemas", "--table", "SHOP.customers")
    assert {row["table"] for row in rows} == {"SHOP.customers"}
    assert all(row["keys"] for row in rows)
    work.close()


def test_redrive_shows_first_and_then_asks_the_pipeline(tmp_path: Path) -> None:
    source = SourceDatabase(43, rows=4, transactions=4)
    work = Work(tmp_path, schema_wait_us=0, on_missing_schema="dead-letter")
    messages = plain(source)
    work.process(work.raw(m.value for m in messages if m.role == "data"), 0)
    work.processor.sweep()
    work.process(work.raw(m.value for m in messages if m.role == "metadata"), 1)
    dead = work.ledger.counts()
    shown = run(work, "redrive", "--dry-run", "--table", "SHOP.order_lines")
    assert work.ledger.counts() == dead
    asked = run(work, "redrive", "--table", "SHOP.order_lines")
    assert asked["messages"] == sum(row["messages"] for row in shown) > 0
    assert run(work, "status")["requests"] == [{"id": asked["request"], "kind": "redrive"}]
    work.processor.sweep()
    assert work.digest(source, *LINES)
    assert run(work, "status")["requests"] == []
    with pytest.raises(InvalidInputError, match="no dead letter or delayed message matches"):
        run(work, "redrive", "--reason", "never said")
    work.close()


def test_redrive_takes_the_name_that_the_target_has(tmp_path: Path) -> None:
    rules = TableRules(rules=(TableRule("shop.kit", {"target": "warehouse.stock"}),))
    table = make_table()
    work = Work(tmp_path, rules=rules, schema_wait_us=0, on_missing_schema="dead-letter")
    work.send(data_message(table, make_change(1)))
    work.processor.sweep()
    work.send(metadata_message(table))
    work.schema_store.scan()
    note_targets(work.ledger, work.schema_store, rules)
    assert run(work, "redrive", "--dry-run", "--table", "warehouse.stock")[0]["table"] == "warehouse.stock"
    assert run(work, "redrive", "--table", "warehouse.stock")["messages"] == 1
    work.processor.sweep()
    assert [row["id"] for row in work.rows("warehouse", "stock")] == [1]
    with pytest.raises(InvalidInputError):
        run(work, "redrive", "--table", "shop.kit")
    work.close()


def test_reload_begins_a_load_that_removes_what_it_does_not_bring(tmp_path: Path) -> None:
    table = make_table()
    work = Work(tmp_path)
    changes = [make_change(number) for number in (1, 2)]
    work.send(metadata_message(table), *(data_message(table, change) for change in changes))
    work.now_us += SECOND_US
    asked = run(work, "reload", "shop.kit", "--at", format_time(work.now_us))
    assert run(work, "status")["requests"] == [{"id": asked["request"], "kind": "reload"}]
    work.send(*(data_message(table, make_change(number, "REFRESH", change_sequence="")) for number in (2, 3)))
    assert run(work, "status")["last_request"]["result"] == {"table": "shop.kit"}
    assert {row["id"] for row in work.rows("shop", "kit")} == {1, 2, 3}, "a load that may go on removes nothing"
    run(work, "reload", "shop.kit", "--ended")
    work.restart()
    work.processor.sweep()
    assert {row["id"] for row in work.rows("shop", "kit")} == {2, 3}
    work.close()


def test_reload_is_refused_when_it_comes_too_late_or_names_no_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = make_table()
    work = Work(tmp_path)
    first = work.now_us
    work.send(metadata_message(table), data_message(table, make_change(1, "REFRESH", change_sequence="")))
    work.now_us += 2 * SECOND_US
    work.send(data_message(table, make_change(2, "REFRESH", change_sequence="")))
    for name, at_us, why in (("shop.kit", first + SECOND_US, "earlier load"), ("shop.other", first, "no such table")):
        run(work, "reload", name, "--at", format_time(at_us))
        work.processor.sweep()
        assert why in run(work, "status")["last_request"]["result"]["refused"]
        assert why in caplog.text
    assert {row["id"] for row in work.rows("shop", "kit")} == {1, 2}
    work.close()


def test_rows_that_a_load_did_not_bring_go_later_when_the_table_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table()
    work = Work(tmp_path)
    work.send(metadata_message(table), data_message(table, make_change(1)))
    work.now_us += 3600 * SECOND_US
    work.send(data_message(table, make_change(2, "REFRESH", change_sequence="")))
    run(work, "reload", "shop.kit", "--ended")
    with monkeypatch.context() as patch:
        patch.setattr(DeltaLakeEngine, "delete", fail_to_write)
        work.processor.sweep()
        assert [found["reason"] for found in run(work, "status")["failing_tables"]] != []
        work.processor.sweep()
        assert work.processor.health.failing["shop", "kit"].failures == 1, "it rests before it is tried again"
    work.now_us += 400 * SECOND_US
    work.processor.sweep()
    assert {row["id"] for row in work.rows("shop", "kit")} == {2}
    assert work.processor.health.failing == {}
    work.close()


def test_run_takes_what_is_kept_and_written_beside_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"file://{tmp_path / 'log'}"
    with connect(url) as log:
        log.create_topic("cdc/data")
    configured: list[ReplicateConfig] = []

    def run_pipeline(config: ReplicateConfig) -> tuple[Summary, bool]:
        configured.append(config)
        return Summary(), False

    monkeypatch.setattr("headstream.cli.replicate.command._run", run_pipeline)
    places = ["--source", url, "--topics", "cdc/data", "--tables", str(tmp_path / "t"), "--checkpoint", str(tmp_path / "c")]
    flags = [
        "--change-tables",
        str(tmp_path / "changes"),
        "--dead-letter-table",
        str(tmp_path / "dead"),
        "--max-parked-count",
        "5",
    ]
    flags += [
        "--metrics",
        str(tmp_path / "m.prom"),
        "--max-parked-bytes",
        "2MiB",
        "--max-parked-age",
        "2h",
        "--max-dead-rate",
        "0.5",
    ]
    result = CliRunner().invoke(replicate, ["run", *places, *flags, "--schema-wait", "500ms"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    (config,) = configured
    assert (config.change_tables, config.dead_letter_table) == (tmp_path / "changes", tmp_path / "dead")
    assert (config.metrics, config.max_parked_count, config.max_parked_bytes) == (tmp_path / "m.prom", 5, 2 << 20)
    assert (config.max_parked_age_us, config.max_dead_rate, config.schema_wait_us) == (7_200_000_000, 0.5, 500_000)
    for flag, text in (("--max-parked-bytes", "10 gallons"), ("--max-parked-age", "soon")):
        refused = CliRunner().invoke(replicate, ["run", *places, flag, text])
        assert refused.exit_code == 2
        assert text in refused.output


def test_run_ends_with_a_table_of_what_it_wrote_how_late_and_what_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    summary = Summary(messages=3, lags_us={("SHOP", "orders"): 1_500_000}, failing={("SHOP", "customers"): "no space left"})
    summary.tables[("SHOP", "orders")] = RowCounts(inserted=2, updated=1)
    monkeypatch.setattr("headstream.cli.replicate.command._run", lambda config: (summary, False))
    monkeypatch.setattr("headstream.spark.sessions.java.find_java", lambda: None)
    places = ["--tables", str(tmp_path / "tables"), "--checkpoint", str(tmp_path / "checkpoint")]
    arguments = ["run", "--source", "kafka://127.0.0.1:9092", "--topics", "cdc/data", *places, "--once"]
    result = CliRunner().invoke(replicate, arguments, catch_exceptions=False)
    lines = [line.split() for line in result.output.splitlines() if line.strip()]
    assert lines[:4] == [
        ["table", "inserted", "updated", "deleted", "lag_seconds"],
        ["SHOP.orders", "2", "1", "0", "1.5"],
        ["failing_table", "reason"],
        ["SHOP.customers", "no", "space", "left"],
    ]
    assert ["messages", "3"] in lines


PATH_FLAGS = ("--tables", "--checkpoint", "--zone", "--change-tables", "--dead-letter-table", "--schemas", "--metrics")


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> list[ReplicateConfig]:
    """The configurations of the pipelines that were run: none of them is, and Java is not looked for."""
    found: list[ReplicateConfig] = []

    def run_pipeline(config: ReplicateConfig) -> tuple[Summary, bool]:
        found.append(config)
        return Summary(), False

    monkeypatch.setattr("headstream.cli.replicate.command._run", run_pipeline)
    monkeypatch.setattr("headstream.spark.sessions.java.find_java", lambda: None)
    return found


@pytest.mark.parametrize("flag", PATH_FLAGS)
def test_run_refuses_a_path_when_its_scheme_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flag: str) -> None:
    monkeypatch.chdir(tmp_path)
    places = {"--tables": "t", "--checkpoint": "c", flag: "ftp://lake/x"}
    arguments = ["run", "--source", "kafka://h:1", "--topics", "cdc/data", *(text for pair in places.items() for text in pair)]
    result = CliRunner().invoke(replicate, arguments)
    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert f"Invalid value for '{flag}': 'ftp://lake/x': the scheme ftp: is not supported here" in result.output


def test_run_takes_a_directory_with_dots_when_it_is_said_to_be_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: list[ReplicateConfig]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["run", "--source", "kafka://h:1", "--topics", "cdc/data", "--checkpoint", "c", "--tables"]
    refused = CliRunner().invoke(replicate, [*arguments, "main.cdc.changes"])
    assert refused.exit_code == 2
    assert "looks like a catalog table name" in refused.output
    taken = CliRunner().invoke(replicate, [*arguments, "./main.cdc.changes"], catch_exceptions=False)
    assert taken.exit_code == 0, taken.output
    assert configured[0].tables == tmp_path / "main.cdc.changes"


def test_run_hands_settings_to_spark_and_prefers_them_to_the_files(tmp_path: Path, configured: list[ReplicateConfig]) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(
        'source = "kafka://h:1"\ntopics = ["a/b"]\ntables = "t"\ncheckpoint = "c"\n[spark]\ndriver.memory = "1g"\na = "file"\n'
    )
    flags = ["--driver-memory", "3g", "--conf", "spark.b=x=y", "--conf", "spark.c="]
    result = CliRunner().invoke(replicate, ["run", "--config", str(file), *flags], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert configured[0].spark == {"spark.driver.memory": "3g", "spark.a": "file", "spark.b": "x=y", "spark.c": ""}
    refused = CliRunner().invoke(replicate, ["run", "--config", str(file), "--conf", "driver.memory=3g"])
    assert refused.exit_code == 2
    assert "'driver.memory=3g' is not a Spark setting" in refused.output
