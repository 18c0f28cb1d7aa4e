"""What the metrics say of the listener for Kafka's clients."""

from __future__ import annotations

from headstream.core.wire.commands.system import Stats
from headstream.metrics.families import write_openmetrics
from headstream.server.http.metrics import describe_server
from headstream.server.kafka.apis import FETCH, PRODUCE
from headstream.server.kafka.protocol.error_codes import ErrorCode
from headstream.server.kafka.traffic import KafkaTraffic


def test_metrics_name_apis_and_errors_as_kafka_does_when_its_clients_have_asked() -> None:
    stats = Stats(*[0] * 18, *[""] * 4)  # type: ignore[arg-type]
    traffic = KafkaTraffic()
    traffic.answered(PRODUCE, 0, 0.001)
    traffic.answered(PRODUCE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 0.001)
    traffic.answered(FETCH, 9999, 0.001)
    told = write_openmetrics(describe_server([traffic], stats, 1, ()))
    for command, status in (("produce", "ok"), ("produce", "out_of_order_sequence_number"), ("fetch", "9999")):
        assert f'headstream_requests_total{{command="{command}",status="{status}",transport="kafka"}} 1.0' in told
