"""Builds the diagnostic archive of a server in memory, with one text file per entry.

The archive contains no secrets: processes are listed without arguments, and the configuration is the server's redacted file.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from headstream.broker.recent_lines import RECENT_LINES
from headstream.core.wire.commands.system import SnapshotCompression, SnapshotType
from headstream.core.wire.refusals import refusal
from headstream.core.wire.statuses import Status
from headstream.errors import HeadstreamError
from headstream.log.log import Log

_METHODS: Final = {
    SnapshotCompression.STORED: zipfile.ZIP_STORED,
    SnapshotCompression.DEFLATED: zipfile.ZIP_DEFLATED,
    SnapshotCompression.BZIP2: zipfile.ZIP_BZIP2,
    SnapshotCompression.LZMA: zipfile.ZIP_LZMA,
}
_MOST_FILES: Final = 10_000
_TAIL_BYTES: Final = 256 << 10


def make_archive(log: Log, compression: SnapshotCompression, types: Collection[SnapshotType]) -> bytes:
    """Return an archive (ZIP).

    Args:
        compression: Deflate is used instead of methods other than store, deflate, bzip2 and lzma.

    Raises:
        HeadstreamError: the archive cannot be built (9000).
    """
    wanted = [kind for kind in _WRITERS if kind in types or SnapshotType.ALL in types]
    packed = io.BytesIO()
    try:
        with zipfile.ZipFile(packed, "w", _METHODS.get(compression, zipfile.ZIP_DEFLATED)) as archive:
            for kind in wanted:
                archive.writestr(f"{kind.name.lower()}.txt", _WRITERS[kind](log))
    except (OSError, ValueError, HeadstreamError) as error:
        raise refusal(Status.SNAPSHOT_FILE_COMPLETION_FAILED, f"the snapshot could not be created: {error}") from error
    return packed.getvalue()


def _list_files(log: Log) -> str:
    if log.is_memory:
        return "The log is in memory.\n"
    lines = []
    for directory, names, files in os.walk(log.root):
        names.sort()
        for name in sorted(files):
            path = Path(directory) / name
            try:
                lines.append(f"{path.stat().st_size:>16} {path.relative_to(log.root)}\n")
            except OSError:  # removed meanwhile
                continue
            if len(lines) == _MOST_FILES:
                return "".join([*lines, "and more\n"])
    return "".join(lines)


def _processes(log: Log) -> str:
    import psutil  # a package of the server's extra

    lines = [f"{'pid':>8} {'parent':>8} {'rss':>14} name\n"]
    for process in psutil.process_iter(["pid", "ppid", "name", "memory_info"]):
        info = process.info
        resident = info["memory_info"].rss if info["memory_info"] else 0
        lines.append(f"{info['pid']:>8} {info['ppid'] or 0:>8} {resident:>14} {info['name']}\n")
    return "".join(lines)


def _usage(log: Log) -> str:
    import psutil

    process, memory = psutil.Process(), psutil.virtual_memory()
    usage = {
        "cpus": psutil.cpu_count(),
        "load": os.getloadavg(),
        "memory_total": memory.total,
        "memory_available": memory.available,
        "process_rss": process.memory_info().rss,
        "process_threads": process.num_threads(),
        "process_cpu_seconds": sum(process.cpu_times()[:2]),
    }
    if not log.is_memory:
        disk = psutil.disk_usage(log.root)
        usage |= {"disk_total": disk.total, "disk_free": disk.free}
    return "".join(f"{name} {value}\n" for name, value in usage.items())


def _tail_logs(log: Log) -> str:
    paths = [] if log.is_memory else sorted(Path(log.root, "logs").glob("*.log"))
    if not paths:
        return RECENT_LINES.text() or "The server has logged nothing yet.\n"
    with paths[-1].open("rb") as file:
        file.seek(max(paths[-1].stat().st_size - _TAIL_BYTES, 0))
        return file.read().decode("utf-8", "replace")


def _read_configuration(log: Log) -> str:
    path = Path(log.root, "runtime", "current_config.toml")
    if log.is_memory or not path.exists():
        return "The server has no stored configuration.\n"
    return path.read_text("utf-8")


_WRITERS: Final[dict[SnapshotType, Callable[[Log], str]]] = {
    SnapshotType.FILESYSTEM_OVERVIEW: _list_files,
    SnapshotType.PROCESS_LIST: _processes,
    SnapshotType.RESOURCE_USAGE: _usage,
    SnapshotType.TEST: lambda _: "test\n",
    SnapshotType.SERVER_LOGS: _tail_logs,
    SnapshotType.SERVER_CONFIG: _read_configuration,
}
