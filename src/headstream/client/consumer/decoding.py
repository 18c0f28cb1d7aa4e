"""Consumers of decoded messages, as returned by log.consumer(topic, decode=…).

The classes only add the value type; the decoder is called when a message is delivered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from headstream.client.consumer.consumer import Consumer
from headstream.client.consumer.fetching import Transform
from headstream.client.consumer.topics_consumer import TopicsConsumer
from headstream.core.model.message import Message, ReceivedMessage
from headstream.errors import SerializerError
from headstream.serializers.serializer import decoder_of, explain_failure

_T = TypeVar("_T")


class DecodedMessage(ReceivedMessage, Generic[_T]):
    """A message that was read from a log, with its decoded value."""

    __slots__ = ("_value",)
    _value: _T

    @property
    def value(self) -> _T:
        """The value of the payload.

        Raises:
            SerializerError: there is no value, because the payload is null (`message.payload is None`).
        """
        if self.payload is None:
            raise SerializerError(
                "a null payload cannot be decoded",
                where=place_of(self),
                advice="Check `message.payload is None` first: in a compacted topic a null payload deletes its key",
            )
        return self._value


def message_decoder(decode: Any) -> Transform:
    """Return a function that decodes messages with a Serializer or a function of bytes; InvalidOptionError for other types."""
    name, function = decoder_of(decode)

    def transform(message: ReceivedMessage) -> ReceivedMessage:
        decoded: DecodedMessage[Any] = _new(DecodedMessage)
        for get, put in _COPIED:
            put(decoded, get(message))
        if message.payload is not None:
            try:
                object.__setattr__(decoded, "_value", function(message.payload))
            except Exception as error:
                advice = (
                    f"The message will be delivered again: seek({message.partition}, {message.offset + 1}) skips the "
                    "message, and a consumer without decode= reads its payload"
                )
                raise explain_failure(error, "decoded", name, where=place_of(message), advice=advice) from error
        return decoded

    return transform


def place_of(message: ReceivedMessage) -> str:
    """Return the topic, partition and offset of a message as a string."""
    return f"{message.topic}, partition {message.partition}, offset {message.offset}"


_new: Final[Any] = Message.__new__
_SLOTS: Final[list[Any]] = [Message.__dict__[name] for name in Message.__slots__]
_COPIED: Final = [(slot.__get__, slot.__set__) for slot in _SLOTS]


if TYPE_CHECKING:

    class DecodingConsumer(Consumer, Generic[_T]):
        """A consumer of decoded messages."""

        def __iter__(self) -> Iterator[DecodedMessage[_T]]: ...
        def __next__(self) -> DecodedMessage[_T]: ...
        def take(self) -> DecodedMessage[_T] | None: ...
        def poll(self, count: int = 100, *, timeout_ms: float = 0) -> list[DecodedMessage[_T]]: ...  # type: ignore[override]

    class DecodingTopicsConsumer(TopicsConsumer, Generic[_T]):
        """A consumer of decoded messages from several topics."""

        def __iter__(self) -> Iterator[DecodedMessage[_T]]: ...
        def __next__(self) -> DecodedMessage[_T]: ...
        def take(self) -> DecodedMessage[_T] | None: ...
        def poll(self, count: int = 100, *, timeout_ms: float = 0) -> list[DecodedMessage[_T]]: ...  # type: ignore[override]

else:
    DecodingConsumer, DecodingTopicsConsumer = Consumer, TopicsConsumer
