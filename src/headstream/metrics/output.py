"""Writes the metrics of a job to a file, to an OpenTelemetry collector, or to both."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headstream.errors import MissingExtraError

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from headstream.metrics.otlp import OtlpPush

__all__ = ["MetricsOutput", "open_push"]


class WriteText(Protocol):
    """Receives metrics as text."""

    def __call__(self, text: str, *, is_last: bool) -> None: ...


class MetricsOutput:
    """Writes the metrics of a job to a file, and sends them over OTLP.

    Args:
        service: The job's default name for OTLP; OpenTelemetry's variables override it.
        file: Path of the metrics file; None to write no file.
        write_text: Called with the metrics in the OpenMetrics format, and with `is_last=True` at close(); None for no calls.

    Raises:
        MissingExtraError: a library is not installed.
        InvalidOptionError: an environment variable of OpenTelemetry is invalid.
    """

    def __init__(self, service: str, file: Path | None, *, over_otlp: bool, write_text: WriteText | None = None) -> None:
        self._file = file
        self._write_text = write_text
        self._newest: list[Metric] = []
        if file is not None or write_text is not None:
            _check_prometheus_client()
        self._push = open_push(service, lambda: self._newest) if over_otlp else None

    @property
    def is_wanted(self) -> bool:
        """Whether metrics are written or sent at all."""
        return self._file is not None or self._write_text is not None or self._push is not None

    def write(self, families: Iterable[Metric]) -> None:
        """Write the current metrics; StorageError if the file cannot be written."""
        self._newest = list(families)
        if self._file is not None:
            from headstream.metrics.families import write_metrics_file

            write_metrics_file(self._file, self._newest)
        self._write_as_text(is_last=False)

    def _write_as_text(self, *, is_last: bool) -> None:
        if self._write_text is not None and self._newest:
            from headstream.metrics.families import write_openmetrics

            self._write_text(write_openmetrics(self._newest), is_last=is_last)

    def close(self) -> None:
        """Pass the last metrics to `write_text`, and send them over OTLP; idempotent."""
        self._write_as_text(is_last=True)
        self._write_text = None
        if self._push is not None:
            self._push.close()
            self._push = None


def open_push(service: str, collect: Callable[[], Iterable[Metric]]) -> OtlpPush:
    """Create an OtlpPush; MissingExtraError if the extra `otlp` is not installed, other errors as for OtlpPush."""
    try:
        from headstream.metrics.otlp import OtlpPush
    except ImportError as error:
        raise MissingExtraError(f"metrics over OTLP require {error.name}", advice="Install headstream[otlp]") from None
    return OtlpPush(service, collect)


def _check_prometheus_client() -> None:
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(f"metrics require {error.name}", advice="Install headstream[metrics]") from None
