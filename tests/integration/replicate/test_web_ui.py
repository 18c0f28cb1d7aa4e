"""Spark's web page of a pipeline: what its jobs are called, and that no key of the store is on a page, in logs or on disk."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.integration.replicate import web_ui_jobs
from tests.support.replicate.s3_server import ACCESS_KEY, SECRET_KEY

pytestmark = [pytest.mark.spark, pytest.mark.nightly, pytest.mark.timeout(900)]

SECRETS = (ACCESS_KEY, SECRET_KEY, web_ui_jobs.SESSION_TOKEN)


class Found:
    """What a run has left: pages, output, files."""

    def __init__(self, directory: Path, output: str) -> None:
        document = json.loads((directory / "found.json").read_text())
        self.directory = directory
        self.output = output
        self.summary: dict[str, Any] = document["summary"]
        self.pages: dict[str, str] = document["pages"]
        self.group: list[int] = document["group"]

    def rest(self, name: str) -> Any:
        (page,) = [text for url, text in self.pages.items() if re.search(rf"/api/v1/applications/[^/]+/{name}(\?|$)", url)]
        return json.loads(page)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    directory = tmp_path_factory.mktemp("ui")
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    command = [sys.executable, "-m", web_ui_jobs.__name__, str(directory)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=directory, timeout=800)
    assert ran.returncode == 0, ran.stderr[-3000:]
    return Found(directory, ran.stdout + ran.stderr)


def test_jobs_say_their_table_step_and_micro_batch(found: Found) -> None:
    jobs = {job["jobId"]: (job.get("description", ""), job.get("jobGroup")) for job in found.rest("jobs")}
    described = Counter(description for description, _ in jobs.values())
    assert all(described), jobs
    assert described["decode, micro-batch 0"] >= 1
    assert any("SHOP.orders: merge, micro-batch 0" in description for description in described)
    assert any("SHOP.orders: maintenance" in description for description in described)
    writing = {number for number, (description, _) in jobs.items() if "SHOP." in description}
    assert writing == set(found.group)
    (query,) = {group for number, (_, group) in jobs.items() if number not in writing}
    assert re.fullmatch(r"[0-9a-f-]{36}", query or ""), "the jobs that read end with the query"


def test_no_key_of_the_store_is_on_a_page_in_the_output_or_in_the_checkpoint(found: Found) -> None:
    assert found.summary["tables"]["SHOP.orders"]["inserted"] == 1
    assert found.summary["failing"] == {}
    kinds = {url.split("/")[3] for url in found.pages}
    assert {"api", "jobs", "stages", "environment", "SQL", "StreamingQuery", "executors"} <= kinds
    hadoop = dict(found.rest("environment")["hadoopProperties"])
    assert hadoop["fs.s3a.impl"] == "org.apache.hadoop.fs.s3a.S3AFileSystem", "the page has Hadoop's settings"
    texts = {**found.pages, "output": found.output}
    files = [path for path in (found.directory / "checkpoint").rglob("*") if path.is_file()]
    assert any(path.parts[-2] == "offsets" for path in files)
    texts |= {str(path): path.read_bytes().decode("latin-1") for path in files}
    told = [(where, secret[:4]) for where, text in texts.items() for secret in SECRETS if secret in text]
    assert told == []
