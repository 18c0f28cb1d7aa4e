"""Message streaming with typed headers, from producer to lakehouse.

import headstream as hs

log = hs.connect("file:///var/lib/shop")
log.create_topic("shop/orders", partitions=4)
with log.producer("shop/orders") as producer:
    producer.send(b"...", key=b"42", headers={"attempt": hs.uint8(3), "source": "web"})
with log.consumer("shop/orders", group="billing") as consumer:
    for message in consumer:
        print(message.headers["attempt"], message.payload)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from headstream.connect import connect, connect_async
from headstream.core.codec.dialect_modules import DIALECT_MODULES as _DIALECT_MODULES
from headstream.core.model.constructors import (
    bool_,
    char,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    int128,
    null,
    raw,
    string,
    uint8,
    uint16,
    uint32,
    uint64,
    uint128,
)
from headstream.core.model.header_values import HeaderKind, HeaderValue
from headstream.core.model.headers import Headers
from headstream.core.model.message import Message, MessageState, ReceivedMessage, checksum
from headstream.errors import (
    AccessError,
    AlreadyExistsError,
    AuthenticationError,
    ChecksumError,
    ClosedError,
    ConsumersLimitError,
    CorruptLogError,
    CorruptSendError,
    DecodeError,
    DiskFullError,
    EnvironmentSetupError,
    GroupInUseError,
    GroupNotFoundError,
    HeaderError,
    HeadstreamError,
    InterceptorError,
    InvalidInputError,
    InvalidOptionError,
    InvalidUrlError,
    JarsError,
    JavaError,
    LeaseLostError,
    LegalHoldError,
    LimitError,
    LogError,
    LogLockedError,
    LogVersionError,
    MissingExtraError,
    NotALogError,
    NotFoundError,
    OffsetOutOfRangeError,
    OutcomeUnknownError,
    PartitionClosedError,
    PartitionNotFoundError,
    PermissionDeniedError,
    ProducerFencedError,
    ProducersLimitError,
    RebalancedError,
    ReplicateError,
    RowError,
    SchemaError,
    SequenceError,
    SerializerError,
    ServerError,
    ServerUnreachableError,
    StorageError,
    StreamNotFoundError,
    TopicNotFoundError,
    UnsupportedError,
    WaitTimeoutError,
)
from headstream.version import __version__

if TYPE_CHECKING:
    from headstream.client.admin.async_server import AsyncServer
    from headstream.client.async_client import AsyncClient
    from headstream.client.client import Client
    from headstream.client.consumer.async_consumer import AsyncConsumer, AsyncTopicsConsumer
    from headstream.client.consumer.consumer import Consumer
    from headstream.client.consumer.decoding import DecodedMessage
    from headstream.client.consumer.topics_consumer import TopicsConsumer
    from headstream.client.producer.async_producer import AsyncProducer
    from headstream.client.producer.outcomes import ProducerStats
    from headstream.client.producer.producer import Producer
    from headstream.client.producer.receipts import Delivered, Receipt
    from headstream.client.transports.remote.server import Server
    from headstream.core.codec.conversion import convert, plan_conversion
    from headstream.core.model.deliveries import Retry
    from headstream.core.model.groups import Group, GroupMember, GroupPartition
    from headstream.core.model.partitioning import Partitioning
    from headstream.core.model.polling import PollingStrategy
    from headstream.core.model.topology import Fsync, Limits, Partition, Stream, Topic
    from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions, StreamPermissions, TopicPermissions
    from headstream.handlers.app import App

bool = bool_  # the kind's name, `hs.bool`; omitted from __all__ so that a star import keeps the built-in

__all__ = [
    "AccessError", "AlreadyExistsError", "App", "AsyncClient", "AsyncConsumer", "AsyncProducer", "AsyncServer",
    "AsyncTopicsConsumer", "AuthenticationError", "ChecksumError", "Client", "ClosedError", "Consumer", "ConsumersLimitError",
    "CorruptLogError", "CorruptSendError", "DecodeError", "DecodedMessage", "Delivered", "DiskFullError",
    "EnvironmentSetupError", "Fsync", "GlobalPermissions", "Group", "GroupInUseError", "GroupMember", "GroupNotFoundError",
    "GroupPartition", "HeaderError", "HeaderKind", "HeaderValue", "Headers", "HeadstreamError", "InterceptorError",
    "InvalidInputError", "InvalidOptionError", "InvalidUrlError", "JarsError", "JavaError", "LeaseLostError", "LegalHoldError",
    "LimitError", "Limits", "LogError", "LogLockedError", "LogVersionError", "Message", "MessageState", "MissingExtraError",
    "NotALogError", "NotFoundError", "OffsetOutOfRangeError", "OutcomeUnknownError", "Partition", "PartitionClosedError",
    "PartitionNotFoundError", "Partitioning", "PermissionDeniedError", "Permissions", "PollingStrategy", "Producer",
    "ProducerFencedError", "ProducerStats", "ProducersLimitError", "RebalancedError", "Receipt", "ReceivedMessage",
    "ReplicateError", "Retry", "RowError", "SchemaError", "SequenceError", "SerializerError", "Server", "ServerError",
    "ServerUnreachableError", "StorageError", "Stream", "StreamNotFoundError", "StreamPermissions", "Topic",
    "TopicNotFoundError", "TopicPermissions", "TopicsConsumer", "UnsupportedError", "WaitTimeoutError", "__version__", "char",
    "checksum", "connect", "connect_async", "convert", "float32", "float64", "int8", "int16", "int32", "int64", "int128",
    "null", "plan_conversion", "raw", "string", "uint8", "uint16", "uint32", "uint64", "uint128",
]  # fmt: skip


_DIALECT_MODULES.append("headstream.replicate.codec.dialect")

_LATER = {
    "App": "headstream.handlers.app",
    "AsyncClient": "headstream.client.async_client",
    **dict.fromkeys(("AsyncConsumer", "AsyncTopicsConsumer"), "headstream.client.consumer.async_consumer"),
    "AsyncProducer": "headstream.client.producer.async_producer",
    "AsyncServer": "headstream.client.admin.async_server",
    "Server": "headstream.client.transports.remote.server",
    "Client": "headstream.client.client",
    "Consumer": "headstream.client.consumer.consumer",
    "DecodedMessage": "headstream.client.consumer.decoding",
    "Producer": "headstream.client.producer.producer",
    **dict.fromkeys(("Delivered", "Receipt"), "headstream.client.producer.receipts"),
    "ProducerStats": "headstream.client.producer.outcomes",
    "TopicsConsumer": "headstream.client.consumer.topics_consumer",
    **dict.fromkeys(("convert", "plan_conversion"), "headstream.core.codec.conversion"),
    "Retry": "headstream.core.model.deliveries",
    **dict.fromkeys(("Group", "GroupMember", "GroupPartition"), "headstream.core.model.groups"),
    "Partitioning": "headstream.core.model.partitioning",
    "PollingStrategy": "headstream.core.model.polling",
    **dict.fromkeys(("Fsync", "Limits", "Partition", "Stream", "Topic"), "headstream.core.model.topology"),
    **dict.fromkeys(
        ("GlobalPermissions", "Permissions", "StreamPermissions", "TopicPermissions"), "headstream.core.wire.commands.permissions"
    ),
}
"""Names that are imported on first access, with their modules, because not every program needs them."""


if not TYPE_CHECKING:  # a type checker would accept every misspelt name as Any

    def __getattr__(name: str) -> Any:
        """Import a name of _LATER on first access."""
        if name in _LATER:
            return getattr(importlib.import_module(_LATER[name]), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
