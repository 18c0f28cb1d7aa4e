"""The topics of Debezium messages, and the properties of messages that depend on the connector's configuration."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from headstream.errors import InvalidOptionError

_MOST_POSITIONS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DebeziumSettings:
    """Settings for reading topics with Debezium messages.

    Args:
        topics: Patterns of the topics with Debezium messages, in Headstream's spelling (`shop/public.*`) or Kafka's
            (`shop.public.*`); other topics have messages of Qlik Replicate.
        placeholder: The connector's `unavailable.value.placeholder`, which replaces a value that was not sent.
        sequence: For connectors whose order is not built in: at most two integer fields of `source` that order the
            changes of a row, the most significant first.
        flattened: The `add.fields.prefix` of flattened messages (ExtractNewRecordState), such as `__`; without this setting,
            flattened messages are rejected.

    Raises:
        InvalidOptionError: there is no topic, the placeholder is empty, or `sequence` has more than two fields.
    """

    topics: tuple[str, ...] = ("*",)
    placeholder: str = "__debezium_unavailable_value"
    sequence: tuple[str, ...] = ()
    flattened: str = ""

    def __post_init__(self) -> None:
        if not self.topics or not self.placeholder:
            raise InvalidOptionError("topics and placeholder must not be empty", where="debezium")
        if len(self.sequence) > _MOST_POSITIONS:
            raise InvalidOptionError(
                "a change sequence must have at most two numbers", where="debezium.sequence", advice='Use, for example, ["ts_ns"]'
            )

    def reads(self, topic: str) -> bool:
        """Return whether a topic, `stream/topic`, has Debezium messages."""
        names = (topic, topic.lstrip("/").replace("/", ".", 1))
        return any(fnmatchcase(name, pattern) for name in names for pattern in self.topics)
