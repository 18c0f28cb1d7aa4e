"""Group requests: find the coordinator, join, sync, heartbeat, leave, list, describe, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from headstream.broker.commands.topic_lookup import FoundTopic
from headstream.core.model.polling import ConsumerKind, OffsetOwner
from headstream.errors import GroupInUseError, HeadstreamError, InvalidInputError, NotFoundError, PermissionDeniedError
from headstream.server.kafka.calls import NODE_ID, Call, Reply
from headstream.server.kafka.groups.group_members import GroupState, Joining, KafkaMember
from headstream.server.kafka.groups.membership import KafkaGroup
from headstream.server.kafka.handlers.topic_names import is_allowed, list_places
from headstream.server.kafka.protocol.error_codes import ErrorCode, ProtocolError, fault_of

_Waited: TypeAlias = "Reply | asyncio.Future[dict[str, Any]]"

_GROUP: Final = 0
_LEAST_SESSION_MS: Final = 1_000
_MOST_SESSION_MS: Final = 1_800_000
"""Session timeout limits, milliseconds. The maximum is Kafka's; with a shorter minimum, short pauses would remove members."""
_LEAST_WITH_RETURN: Final = 4
"""First version of JoinGroup in which a new member receives its id before it joins."""
_LEAST_WITH_SKIPPING: Final = 9
"""First version of JoinGroup in which a response can instruct the leader not to assign partitions."""


def check_group(call: Call, name: str) -> None:
    """Raise ProtocolError if the group name is invalid or the user has no right to poll."""
    try:
        OffsetOwner.group(name)
    except InvalidInputError as error:
        raise ProtocolError(ErrorCode.INVALID_GROUP_ID, error.what) from None
    try:
        call.rights.poll_somewhere()
    except PermissionDeniedError as error:
        raise ProtocolError(ErrorCode.GROUP_AUTHORIZATION_FAILED, error.what) from None


def find_coordinator(call: Call) -> Reply:
    """Return this broker as the coordinator of groups; transactions are not supported."""
    node = {"node_id": NODE_ID, "host": call.advertised.host, "port": call.advertised.port}
    if call.request.get("key_type", _GROUP) != _GROUP:
        node = {"node_id": -1, "host": "", "port": -1, "error_code": ErrorCode.INVALID_REQUEST}
        node["error_message"] = "transactions are not supported"
    if call.version < _LEAST_WITH_RETURN:
        return node
    return {"coordinators": [{"key": key, **node} for key in call.request["coordinator_keys"]]}


def _refused(error: HeadstreamError) -> dict[str, Any]:
    return {"error_code": fault_of(error)}


def join_group(call: Call) -> _Waited:
    """Add a member to a group; the response is sent once all members have joined."""
    request = call.request
    try:
        check_group(call, request["group_id"])
        if not _LEAST_SESSION_MS <= request["session_timeout_ms"] <= _MOST_SESSION_MS:
            raise ProtocolError(ErrorCode.INVALID_SESSION_TIMEOUT, "the session timeout must be from 1 s to 30 minutes")
        rebalance_ms = request.get("rebalance_timeout_ms", -1)
        asked = Joining(
            member_id=request["member_id"],
            instance_id=request.get("group_instance_id"),
            protocol_type=request["protocol_type"],
            protocols={each["name"]: each["metadata"] for each in request["protocols"]},
            session_s=request["session_timeout_ms"] / 1000,
            rebalance_s=min(rebalance_ms if rebalance_ms > 0 else request["session_timeout_ms"], _MOST_SESSION_MS) / 1000,
            client_id=call.client_id,
            host=call.session.address.rpartition(":")[0],
            must_return=call.version >= _LEAST_WITH_RETURN,
            can_skip=call.version >= _LEAST_WITH_SKIPPING,
        )
        answer = _Answer()
        call.context.coordinator.join(call, request["group_id"], asked, answer.give)
    except HeadstreamError as error:
        return _refused(error) | {"member_id": request["member_id"]}
    return answer.future


class _Answer:
    """A response that is sent later, at most once."""

    def __init__(self) -> None:
        self.future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()

    def give(self, answer: dict[str, Any]) -> None:
        """Send the response unless the client has disconnected."""
        if not self.future.done():
            self.future.set_result(answer)


def sync_group(call: Call) -> _Waited:
    """Store the assignment from a group's leader, or wait for the assignment."""
    try:
        check_group(call, call.request["group_id"])
        answer, coordinator = _Answer(), call.context.coordinator
        coordinator.get(call, call.request["group_id"]).sync(call.request, answer.give, coordinator.monotonic())
    except HeadstreamError as error:
        return _refused(error)
    return answer.future


def beat(call: Call) -> Reply:
    """Record a heartbeat of a member."""
    coordinator = call.context.coordinator
    try:
        check_group(call, call.request["group_id"])
        fault = coordinator.get(call, call.request["group_id"]).beat(call.request, coordinator.monotonic())
    except HeadstreamError as error:
        return _refused(error)
    return {"error_code": fault}


def leave_group(call: Call) -> Reply:
    """Remove members."""
    request, coordinator = call.request, call.context.coordinator
    leaving = request.get("members") or [{"member_id": request.get("member_id", ""), "group_instance_id": None}]
    answers = []
    try:
        check_group(call, request["group_id"])
        for member in leaving:
            fault = ErrorCode.NONE
            try:
                group = coordinator.get(call, request["group_id"])
                coordinator.leave(group, member["member_id"], member["group_instance_id"])
            except ProtocolError as error:
                fault = error.fault
            named = {"member_id": member["member_id"], "group_instance_id": member["group_instance_id"]}
            answers.append(named | {"error_code": fault})
    except HeadstreamError as error:
        return _refused(error)
    if "members" not in request:
        return {"error_code": answers[0]["error_code"]}
    return {"members": answers}


# -- administration -------------------------------------------------------------------------------------------


def stored_in(call: Call, place: FoundTopic) -> Iterator[str]:
    """Yield the groups with committed offsets in a topic."""
    for consumer in call.context.dispatcher.broker.backing.log.offsets(place.topic).consumers():
        if consumer.kind is ConsumerKind.GROUP:
            yield consumer.name


def _readable(call: Call) -> Iterable[FoundTopic]:
    rights = call.rights
    return [place for _, place in list_places(call) if is_allowed(rights.poll, place.stream.id, place.topic.id)]


def _own(call: Call) -> dict[str, KafkaGroup]:
    """Return the groups with members that a user is allowed to see."""
    groups = dict(call.context.coordinator.groups)
    found = {}
    for name, group in groups.items():
        try:
            call.context.coordinator.check_user(call, group)
        except ProtocolError:
            continue
        found[name] = group
    return found


def list_groups(call: Call) -> Reply:
    """Return all groups with members, or with committed offsets in a topic that the user is allowed to read."""
    wanted = set(call.request.get("states_filter") or ())
    listed = {
        name: {"group_id": name, "protocol_type": group.protocol_type, "group_state": str(group.state)}
        for name, group in _own(call).items()
    }
    for place in _readable(call):
        for name in stored_in(call, place):
            listed.setdefault(name, {"group_id": name, "protocol_type": "consumer", "group_state": str(GroupState.EMPTY)})
    return {"groups": [one for _, one in sorted(listed.items()) if not wanted or one["group_state"] in wanted]}


def describe_groups(call: Call) -> Reply:
    """Return groups with their members."""
    return {"groups": [_describe(call, name) for name in call.request["groups"]]}


def _describe(call: Call, name: str) -> dict[str, Any]:
    try:
        check_group(call, name)
        group = call.context.coordinator.find(call, name)
    except HeadstreamError as error:
        return _refused(error) | {"group_id": name}
    if group is None:
        is_there = any(name in stored_in(call, place) for place in _readable(call))
        return {"group_id": name, "group_state": str(GroupState.EMPTY if is_there else GroupState.DEAD)}
    is_stable = group.state is GroupState.STABLE
    return {
        "group_id": name,
        "group_state": str(group.state),
        "protocol_type": group.protocol_type,
        "protocol_data": group.protocol if is_stable else "",
        "members": [_describe_member(member, group.protocol if is_stable else "") for member in list(group.members.values())],
    }


def _describe_member(member: KafkaMember, protocol: str) -> dict[str, Any]:
    return {
        "member_id": member.id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": f"/{member.host}",
        "member_metadata": member.protocols.get(protocol, b""),
        "member_assignment": member.assignment,
    }


def delete_groups(call: Call) -> Reply:
    """Delete the committed offsets of groups without members, in all topics that the user is allowed to read."""
    results = []
    for name in call.request["groups_names"]:
        fault = ErrorCode.NONE
        try:
            check_group(call, name)
            _delete(call, name)
        except HeadstreamError as error:
            fault = fault_of(error)
        results.append({"group_id": name, "error_code": fault})
    return {"results": results}


def _delete(call: Call, name: str) -> None:
    if call.context.coordinator.find(call, name) is not None:
        raise ProtocolError(ErrorCode.NON_EMPTY_GROUP, "the group must not have members")
    is_there = False
    for place in _readable(call):
        try:
            call.context.dispatcher.broker.groups.delete(place.topic.name, name)
            is_there = True
        except NotFoundError:  # the group has no offsets in the topic, or the topic was deleted since it was listed
            continue
        except GroupInUseError as error:
            raise ProtocolError(ErrorCode.NON_EMPTY_GROUP, error.what) from None
    if not is_there:
        raise ProtocolError(ErrorCode.GROUP_ID_NOT_FOUND, "the group does not exist")
