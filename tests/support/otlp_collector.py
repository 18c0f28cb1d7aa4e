"""A collector of OpenTelemetry for tests: OTLP's metrics over HTTP, read with OpenTelemetry's own protocol classes."""

from __future__ import annotations

import gzip
import http.server
import threading
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse


class OtlpCollector:
    """Collects metrics while the body of `with` runs.

    Attributes:
        requests: What was received.
        status: The HTTP status that it answers.
    """

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.status = 200
        self._came = threading.Condition()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    body = gzip.decompress(body)
                with collector._came:
                    if collector.status == 200:
                        assert self.path == "/v1/metrics"
                        collector.requests.append(ExportMetricsServiceRequest.FromString(body))
                        collector._came.notify_all()
                    answer = ExportMetricsServiceResponse().SerializeToString()
                    self.send_response(collector.status)
                    self.send_header("content-type", "application/x-protobuf")
                    self.send_header("content-length", str(len(answer)))
                    self.end_headers()
                    self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def variables(self) -> dict[str, str]:
        """OpenTelemetry's variables that name it."""
        endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_METRIC_EXPORT_INTERVAL": "200"}

    def wait(self, count: int, timeout_s: float = 60.0) -> None:
        """Wait until it has received some requests."""
        with self._came:
            assert self._came.wait_for(lambda: len(self.requests) >= count, timeout_s), f"{len(self.requests)} requests came"

    def wait_for(self, name: str, value: float, timeout_s: float = 60.0) -> None:
        """Wait until a gauge of the newest request has a value; a server computes its values less often than it sends them."""
        with self._came:
            is_there = self._came.wait_for(
                lambda: bool(self.requests) and self.newest()[name].gauge.data_points[0].as_double == value, timeout_s
            )
            assert is_there, f"{name} is {self.newest()[name]}"

    def resource(self) -> dict[str, str]:
        """The attributes of the newest request's resource."""
        attributes = self.requests[-1].resource_metrics[0].resource.attributes
        return {each.key: each.value.string_value for each in attributes}

    def newest(self) -> dict[str, Any]:
        """The metrics of the newest request by name."""
        return {
            metric.name: metric
            for of_resource in self.requests[-1].resource_metrics
            for scope in of_resource.scope_metrics
            for metric in scope.metrics
        }

    def __enter__(self) -> OtlpCollector:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def labels_of(point: Any) -> dict[str, str]:
    """Return the attributes of a point."""
    return {each.key: each.value.string_value for each in point.attributes}
