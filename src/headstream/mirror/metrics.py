"""A mirror's numbers in the OpenMetrics format, as a file for a collector."""

from __future__ import annotations

import os
from pathlib import Path

from headstream.errors import StorageError
from headstream.mirror.mirror import MirrorStats

__all__ = ["format_metrics", "write_metrics"]

_COUNTERS = (
    ("copied_messages", "copied", "Messages sent to the destination."),
    ("found_messages", "found", "Messages that an earlier run had copied."),
    ("looped_messages", "looped", "Messages passed over because they come from the destination."),
    ("missed_offsets", "missed", "Offsets that the source had dropped before they were read."),
    ("copied_bytes", "bytes", "Payload and key bytes sent."),
)


def format_metrics(stats: MirrorStats) -> str:
    """Return the numbers of a run as OpenMetrics text, with its `# EOF`."""
    lines: list[str] = []
    for name, attribute, text in _COUNTERS:
        full = f"headstream_mirror_{name}"
        lines += [f"# TYPE {full} counter", f"# HELP {full} {text}", f"{full}_total {getattr(stats, attribute)}"]
    lag = "headstream_mirror_lag_messages"
    lines += [f"# TYPE {lag} gauge", f"# HELP {lag} Messages of the source that are not read yet."]
    lines += [f'{lag}{{topic="{topic}"}} {count}' for topic, count in sorted(stats.lag.items())]
    behind = "headstream_mirror_behind_seconds"
    lines += [
        f"# TYPE {behind} gauge",
        f"# HELP {behind} Age of the message read last when it was read.",
        f"{behind} {stats.behind_s}",
    ]
    return "\n".join([*lines, "# EOF", ""])


def write_metrics(path: Path, stats: MirrorStats) -> None:
    """Replace a metrics file atomically.

    Raises:
        StorageError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(format_metrics(stats), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise StorageError(f"the metrics cannot be written: {error.strerror}", where=str(path)) from error
