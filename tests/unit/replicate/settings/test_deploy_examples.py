"""The files of examples/deploy: they parse, name files that are there, and give the pipeline arguments that it takes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import click
import pytest

from headstream.cli.replicate.command import replicate
from headstream.cli.server import server

yaml = pytest.importorskip("yaml")

DEPLOY = Path(__file__).parents[4] / "examples" / "deploy"


def check_arguments(arguments: list[str], directory: Path) -> None:
    """Parse arguments of the job as the command does, with a real file in place of each one named."""
    file = directory / "replicate.toml"
    file.touch()
    given = [str(file) if argument.endswith("replicate.toml") else argument for argument in arguments]
    run = replicate.commands["run"]
    parsed = run.make_context("run", given, parent=click.Context(replicate))
    assert parsed.params["config_file"] == file


def test_the_kubernetes_file_runs_the_job_of_the_image_with_a_configuration_that_is_mounted(tmp_path: Path) -> None:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "replicate-kubernetes.yaml").read_text())
    spec, image = document["spec"], (DEPLOY / "Dockerfile").read_text()
    copied = dict(re.findall(r"^COPY (\S+) (\S+)$", image, re.MULTILINE))
    assert all((DEPLOY / name).is_file() for name in copied)
    assert spec["mainApplicationFile"].removeprefix("local://") in copied.values()
    check_arguments(spec["arguments"], tmp_path)
    mounted = [mount["mountPath"] for mount in spec["driver"]["volumeMounts"]]
    assert any(spec["arguments"][-1].startswith(f"{path}/") for path in mounted)
    assert {mount["name"] for mount in spec["driver"]["volumeMounts"]} == {volume["name"] for volume in spec["volumes"]}
    assert "envFrom" not in spec["executor"]


def test_the_step_of_emr_gives_the_job_arguments_that_it_takes(tmp_path: Path) -> None:
    (step,) = json.loads((DEPLOY / "emr-step.json").read_text())
    arguments: list[str] = step["Args"]
    job = next(number for number, argument in enumerate(arguments) if argument.endswith(".py"))
    assert (DEPLOY / arguments[job].rpartition("/")[2]).is_file()
    check_arguments(arguments[job + 1 :], tmp_path)
    shipped = arguments[arguments.index("--files") + 1].rpartition("/")[2]
    assert arguments[-1] == shipped


def test_the_job_of_databricks_is_one_task_on_a_cluster_that_is_not_shared() -> None:
    job = yaml.safe_load((DEPLOY / "databricks-job.yml").read_text())["resources"]["jobs"]["replicate"]
    (task,), (cluster,) = job["tasks"], job["job_clusters"]
    assert task["job_cluster_key"] == cluster["job_cluster_key"]
    assert cluster["new_cluster"]["data_security_mode"] == "SINGLE_USER"


def test_the_compose_file_gives_the_commands_arguments_that_they_take_and_the_services_each_other() -> None:
    services = yaml.safe_load((DEPLOY.parents[1] / "deploy/compose.yaml").read_text())["services"]
    for service in services.values():
        assert set(service.get("depends_on", {})) <= set(services)
    arguments = services["pipeline"]["command"]
    parsed = replicate.commands["run"].make_context("run", list(arguments), parent=click.Context(replicate))
    assert parsed.params["form"] == "debezium"
    image = (DEPLOY.parents[1] / "Dockerfile").read_text()
    assert f"AS {services['pipeline']['build']['target']}\n" in image
    entry = json.loads(image.rpartition("ENTRYPOINT ")[2])
    assert server.make_context("server", entry[2:]).params["kafka"] == "0.0.0.0:9092"
