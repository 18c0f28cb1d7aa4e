"""The pipeline as a process, with its tables in an object store: killed at seeded moments while the store fails now and then."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from headstream.errors import StorageError
from headstream.replicate.checkpoint.reading import CheckpointReader
from headstream.replicate.storage.store_files import StoreFiles
from headstream.replicate.tables.tables import table_path
from headstream.testing import digest_rows
from tests.integration.replicate.test_cli import fill
from tests.integration.replicate.test_kill import find_commits, read_table, run_killed, start
from tests.support.killed_jobs import Job
from tests.support.replicate.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

pytestmark = pytest.mark.spark

EXAMPLE = Path(__file__).parents[3] / "examples" / "replicate-s3.toml"


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as running:
        yield running


def set_variables(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def all_bytes(directory: Path) -> Iterator[tuple[Path, bytes]]:
    for path in directory.rglob("*"):
        if path.is_file():
            yield path, path.read_bytes()


@pytest.mark.timeout(1800)
@pytest.mark.nightly
def test_tables_equal_the_source_when_the_pipeline_is_killed_and_each_run_has_an_empty_disk(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(monkeypatch, server.variables)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))  # what a killed run leaves there is not found by the next
    place = server.place(tmp_path.name)
    run_killed(tmp_path, 24, 1, "--max-messages-per-batch", "240", place=place, checkpoint=place / "checkpoint")
    assert not (tmp_path / "checkpoint").exists()
    secrets = ACCESS_KEY.encode(), SECRET_KEY.encode()
    copy = tmp_path / "copy"
    CheckpointReader(server.place(f"{tmp_path.name}/checkpoint"), copy).refresh()
    files = list(all_bytes(copy))
    assert len(files) > 10
    assert [path for path, content in files if any(secret in content for secret in secrets)] == []


@pytest.mark.timeout(1800)
@pytest.mark.nightly
def test_tables_in_a_store_equal_the_source_when_the_pipeline_is_killed_and_the_store_fails_now_and_then(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_variables(monkeypatch, server.variables)
    server.break_down(refused=0.02, lost=0.02, seed=23)
    place = server.place(tmp_path.name)
    run_killed(tmp_path, 23, 2, place=place)
    server.recover()
    assert len(find_commits(place / "tables")) > 0
    assert not (tmp_path / "tables").exists()
    # Neither the checkpoint nor what the processes printed has the credentials.
    secrets = ACCESS_KEY.encode(), SECRET_KEY.encode()
    shown = [path for part in ("checkpoint", "job-output.txt", "job-errors.txt") for path in [tmp_path / part]]
    files = [found for path in shown for found in ([(path, path.read_bytes())] if path.is_file() else all_bytes(path))]
    assert len(files) > 10
    assert [path for path, content in files if any(secret in content for secret in secrets)] == []


def test_run_refuses_a_store_that_it_cannot_reach_before_spark_starts(
    server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headstream.connect import connect

    with connect(f"file://{tmp_path / 'log'}") as log:
        log.create_topic("cdc/data")
        log.create_topic("cdc/metadata")
    set_variables(monkeypatch, {**server.variables, "AWS_ENDPOINT_URL": "http://127.0.0.1:1"})
    job = start(tmp_path, server.place("x"))
    with pytest.raises(AssertionError, match=r"the object store cannot be used: .* Connection refused .*tried endpoint"):
        job.finish()
    assert "AWS_ACCESS_KEY_ID" in job.errors
    assert SECRET_KEY not in job.errors
    assert not (tmp_path / "checkpoint").exists()


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_the_example_runs_when_it_names_this_store(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = fill((tmp_path / "log").as_uri())
    changed = {
        "file:///var/lib/cdc": (tmp_path / "log").as_uri(),
        "/data/checkpoint": str(tmp_path / "checkpoint"),
        "https://minio.example:9000": server.url,
        "s3://lake/cdc/": f"{server.place(tmp_path.name)}/",
    }
    text = EXAMPLE.read_text()
    for said, here in changed.items():
        assert said in text
        text = text.replace(said, here)
    config = tmp_path / "replicate-s3.toml"
    config.write_text(text)
    keys = {name: value for name, value in server.variables.items() if name != "AWS_ENDPOINT_URL"}
    set_variables(monkeypatch, keys)
    command = [sys.executable, "-m", "headstream.cli", "replicate", "run", "--config", str(config), "--once", "--output", "json"]
    summary = json.loads(Job(command, tmp_path).finish())
    assert summary["failing"] == {}
    place = server.place(tmp_path.name)
    for metadata in source.tables():
        schema, table = metadata.lineage.schema, metadata.lineage.table
        rows = read_table(table_path(place / "tables", schema, table), "*")
        assert digest_rows(rows, metadata.key_columns) == source.digest(schema, table), f"{schema}.{table}"
    assert len({parts[:2] for parts in find_commits(place / "changes")}) == len(source.tables())


def test_store_files_say_what_cannot_be_read(server: S3Server) -> None:
    place = server.place("denied", endpoint="http://127.0.0.1:1", retry_us=0)
    with pytest.raises(StorageError, match=r"the object cannot be read: .*Connection refused"):
        StoreFiles(place).read()
