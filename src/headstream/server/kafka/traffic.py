"""KafkaTraffic: counters of Kafka's listener, by API and error code."""

from __future__ import annotations

from typing import Final

from headstream.server.iggy.fast_path.traffic import CommandTraffic, Traffic
from headstream.server.kafka.apis import APIS
from headstream.server.kafka.protocol.error_codes import ErrorCode

_CODES: Final = frozenset(ErrorCode)


class KafkaTraffic(Traffic):
    """Counters of the listener, written by the event loop and read by any thread."""

    def __init__(self) -> None:
        super().__init__("kafka")

    def answered(self, code: int, status: int, seconds: float) -> None:
        """Count a request of a supported API; see Traffic.answered()."""
        if code not in self.commands:
            self.commands[code] = CommandTraffic(code)
        super().answered(code, status, seconds)

    def name_of_command(self, code: int) -> str:
        """Return the name of an API."""
        return APIS[code].name

    def name_of_status(self, status: int) -> str:
        """Return the name of an error code."""
        return "ok" if not status else ErrorCode(status).name.lower() if status in _CODES else str(status)
