"""A YARN of one ResourceManager and one NodeManager, each a process, with an HDFS of one machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

from headstream.spark.sessions.jar_sets import NAMENODE, YARN
from headstream.spark.sessions.jars import find
from headstream.spark.sessions.java import find_java
from headstream.testing.temporary_server import find_free_ports
from tests.support.replicate.store_servers import HdfsServer

_START_S = 90


@contextmanager
def yarn_cluster(directory: Path) -> Iterator[tuple[Path, str]]:
    """Start one; yields the directory of its configuration, for HADOOP_CONF_DIR, and the URI of its HDFS."""
    jars = [find(NAMENODE), find(YARN)]
    if None in jars:
        pytest.skip("no YARN: headstream.spark.sessions.jars.fetch() with the sets NAMENODE and YARN installs it")
    import pyspark

    conf = directory / "conf"
    conf.mkdir()
    classes = [
        str(conf),
        *(str(path) for found in jars for path in found or ()),
        str(Path(pyspark.__file__).parent / "jars" / "*"),
    ]
    java = [str(find_java().executable), "-Xmx400m", "-cp", ":".join(classes)]
    with HdfsServer(directory) as hdfs, ExitStack() as stack:
        uri = f"hdfs://{hdfs.bucket}"
        page = find_free_ports()[0]
        _write(conf / "core-site.xml", {"fs.defaultFS": uri})
        _write(conf / "yarn-site.xml", _settings(directory, page))
        for kind in ("resourcemanager.ResourceManager", "nodemanager.NodeManager"):
            output = stack.enter_context((directory / f"{kind}.log").open("wb"))
            process = subprocess.Popen(
                [*java, f"org.apache.hadoop.yarn.server.{kind}"],
                cwd=directory,
                env={**os.environ, "HADOOP_CONF_DIR": str(conf), "JAVA_HOME": str(find_java().executable.parents[1])},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            stack.callback(process.wait)
            stack.callback(os.killpg, process.pid, signal.SIGKILL)
        _wait(f"http://127.0.0.1:{page}/ws/v1/cluster/nodes", directory)
        yield conf, uri


def _settings(directory: Path, page: int) -> dict[str, str]:
    manager, node = "yarn.resourcemanager", "yarn.nodemanager"
    names = [f"{manager}.address", f"{manager}.scheduler.address", f"{manager}.resource-tracker.address"]
    names += [f"{manager}.admin.address", f"{node}.localizer.address", f"{node}.webapp.address"]
    return {
        **{name: f"127.0.0.1:{find_free_ports()[0]}" for name in names},
        f"{manager}.hostname": "127.0.0.1",
        f"{manager}.webapp.address": f"127.0.0.1:{page}",
        f"{node}.address": "127.0.0.1:0",
        f"{node}.resource.memory-mb": "6144",
        f"{node}.resource.cpu-vcores": "4",
        f"{node}.vmem-check-enabled": "false",
        f"{node}.local-dirs": str(directory / "node"),
        f"{node}.log-dirs": str(directory / "logs"),
        f"{node}.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
        "yarn.scheduler.minimum-allocation-mb": "256",
        "yarn.scheduler.capacity.root.queues": "default",
        "yarn.scheduler.capacity.root.default.capacity": "100",
        "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
    }


def _write(path: Path, settings: dict[str, str]) -> None:
    lines = [
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>" for name, value in settings.items()
    ]
    path.write_text("\n".join(["<configuration>", *lines, "</configuration>"]))


def _wait(url: str, directory: Path) -> None:
    """Wait until the NodeManager has reported itself to the ResourceManager."""
    until = time.monotonic() + _START_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                nodes = json.load(answer)["nodes"] or {}
            if any(node["state"] == "RUNNING" for node in nodes.get("node", ())):
                return
        except (urllib.error.URLError, TimeoutError):
            pass
        logs = "\n".join(path.read_text(errors="replace")[-2000:] for path in directory.glob("*Manager.log"))
        assert time.monotonic() < until, logs
        time.sleep(0.3)
