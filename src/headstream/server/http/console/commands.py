"""ClientCommands: answers the console's commands with a client of any log: a directory or a Kafka cluster.

Used for logs without a server; a server answers all commands itself (Caller.call). Unsupported operations raise UnsupportedError.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

from headstream.client.transports.delivery_transport import find_views
from headstream.client.transports.transport import Transport
from headstream.core.codec.binary import encode_polled
from headstream.core.filters.filter import Filter, parse_filter
from headstream.core.filters.poll_request import PollRequest
from headstream.core.model.identifiers import TopicName
from headstream.core.model.polling import Polled, PolledMessages, PollingStrategy
from headstream.core.model.topology import NewTopic, TopicOptions
from headstream.core.wire.commands.groups import DeleteGroup
from headstream.core.wire.commands.partitions import CreatePartitions
from headstream.core.wire.commands.topics import DeleteTopic, PurgeTopic
from headstream.core.wire.commands.users import GetUser
from headstream.core.wire.extensions.delivery_views import GetGroupDeliveries, encode_counts
from headstream.core.wire.extensions.filters import CountedSegments, CountSegments, FilteredMessages, FilterMessages
from headstream.core.wire.extensions.groups import GroupLag, ListGroupLags, SeekGroup
from headstream.core.wire.extensions.messages import FetchedMessages, FetchMessages, ListStates, SetState, StateChange
from headstream.core.wire.extensions.topic_options import (
    ChangeTopicOptions,
    CreateOpenTopic,
    GetIdentity,
    GetOpenTopic,
    Identity,
    ListOpenTopics,
    OpenTopic,
)
from headstream.core.wire.records import Command
from headstream.core.wire.shapes import Identifier
from headstream.errors import NotFoundError, UnsupportedError

_AUTHOR: Final = "console"
"""Author of state changes in logs without users."""


class ClientCommands:
    """Answers commands; thread-safe. The caller closes the transport."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._handlers: dict[type[Command[Any]], Callable[[Any], Any]] = {
            GetIdentity: lambda _: Identity(transport.identity or ""),
            GetUser: lambda _: None,
            ListOpenTopics: lambda _: tuple(OpenTopic.of(topic) for topic in transport.topics.list()),
            GetOpenTopic: lambda command: OpenTopic.of(transport.topics.get(self._name(command))),
            CreateOpenTopic: self._create_topic,
            ChangeTopicOptions: lambda command: OpenTopic.of(transport.topics.update(self._name(command), **command.changes)),
            DeleteTopic: lambda command: transport.topics.delete(self._name(command)),
            PurgeTopic: lambda command: transport.topics.purge(self._name(command)),
            CreatePartitions: lambda command: transport.partitions.create(self._name(command), command.partitions_count),
            FetchMessages: self._fetch,
            FilterMessages: self._filter,
            ListStates: self._list_states,
            SetState: self._set_state,
            CountSegments: self._count_segments,
            GetGroupDeliveries: lambda command: encode_counts(find_views(transport).group(*self._group(command))),
            ListGroupLags: lambda command: tuple(GroupLag.of(one) for one in transport.groups.list(self._name(command))),
            SeekGroup: lambda command: GroupLag.of(transport.groups.seek(*self._group(command), command.offsets)),
            DeleteGroup: lambda command: transport.groups.delete(*self._group(command)),
        }

    def answer(self, command: Command[Any]) -> Any:
        """Return the reply to a validated command; UnsupportedError if the command requires a server."""
        handler = self._handlers.get(type(command))
        if handler is None:
            name = command.entry().name
            raise UnsupportedError(f"{name} needs a server", advice="Start `headstream server`, and open its console")
        return handler(command)

    def _name(self, command: Any) -> TopicName:
        stream: Identifier = command.stream
        topic: Identifier = command.topic
        if isinstance(stream, str) and isinstance(topic, str):
            return TopicName(stream, topic)
        found = self._transport.topics.find(stream, topic)
        if found is None:
            raise NotFoundError(f"there is no topic {topic} in the stream {stream}")
        return TopicName(found.stream, found.name)

    def _group(self, command: Any) -> tuple[TopicName, str]:
        return self._name(command), str(command.group)

    def _create_topic(self, command: CreateOpenTopic) -> OpenTopic:
        options = TopicOptions(**{each.name: getattr(command, each.name) for each in fields(TopicOptions)})
        name = TopicName(command.stream, command.name)
        return OpenTopic.of(
            self._transport.topics.create(
                NewTopic(name, command.partitions_count, command.limits, fsync=command.fsync, options=options),
                if_not_exists=command.if_not_exists,
            )
        )

    def _fetch(self, command: FetchMessages) -> FetchedMessages:
        found = self._poll(command, None)
        return FetchedMessages.of(found, messages=_stored_bytes(found))

    def _filter(self, command: FilterMessages) -> FilteredMessages:
        found = self._poll(command, parse_filter(command.where))
        return FilteredMessages.of(found, messages=_stored_bytes(found))

    def _poll(self, command: FetchMessages | FilterMessages, where: Filter | None) -> Polled:
        strategy = PollingStrategy(command.kind, command.value)
        return self._transport.messages.poll(
            self._name(command),
            command.partition,
            PollRequest(strategy, command.count, states=None, size_bytes=command.size_bytes, where=where),
        )

    def _count_segments(self, command: CountSegments) -> CountedSegments:
        found = self._transport.messages.count_segments(self._name(command), parse_filter(command.where))
        if found is None:
            raise UnsupportedError("this log has no segments, so it cannot count skipped segments")
        return CountedSegments.of(found)

    def _list_states(self, command: ListStates) -> tuple[StateChange, ...]:
        changes = self._transport.messages.states(self._name(command), command.partition)
        wanted = [one for one in changes if one.offset >= command.from_offset]
        page = wanted[: command.count or None]
        return tuple(StateChange.of(one) for one in page)

    def _set_state(self, command: SetState) -> None:
        name, partition = self._name(command), command.partition
        self._transport.messages.set_state(name, partition, command.offsets, command.state, reason=command.reason, by=_AUTHOR)


def _stored_bytes(found: Polled) -> bytes:
    return encode_polled(found.messages) if isinstance(found, PolledMessages) else b"".join(found.chunks)
