"""Headstream's own commands: the same in bytes and over HTTP, and bounded where the bytes are not right."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from headstream.core.codec.binary import encode_polled, encode_sent
from headstream.core.model.deliveries import DeliveryStep, RetryOrder
from headstream.core.model.delivery_views import DeliveryStatus
from headstream.core.model.headers import Headers
from headstream.core.model.leases import LeaseStep
from headstream.core.model.message import Message, MessageState
from headstream.core.model.polling import ConsumerKind, PollingKind
from headstream.core.model.topology import Fsync, Limits
from headstream.core.wire import codes, command_classes, refusals
from headstream.core.wire.commands.offsets import ConsumerRef
from headstream.core.wire.extensions import (
    deliveries,
    delivery_views,
    epochs,
    filters,
    groups,
    leases,
    messages,
    producers,
    topic_options,
)
from headstream.core.wire.records import Command
from headstream.errors import DecodeError, HeadstreamError, InvalidInputError
from tests.unit.core.wire.test_commands import id_of, send_over_http

BILLING = ConsumerRef(ConsumerKind.GROUP, "billing")
SENT = encode_sent([Message(payload=None, key=b"k"), Message(payload=b"x", headers=Headers({"a": 1}))])
STORED = encode_polled([Message(payload=b"x", offset=3, timestamp=1, state=MessageState.POISONED)])
RECEIPT = epochs.StagedBatch("part-0", "shop/orders", 1, len(SENT), 2, 12345)
TOPIC = topic_options.OpenTopic(
    *("shop", "orders", 1, 1_700_000_000_000_000, Limits.WIDE, Fsync.ALWAYS, None, 1 << 40, 0, 1000, "1/4"),
    partitions=(topic_options.OpenPartition(1, 5, 9, 1000, 2, 1_700_000_000_000_000),),
    summary_headers="tenant,user_id",
    deletion_grace_us=5,
    legal_hold=True,
)
LAG = groups.GroupLag(
    "billing",
    7,
    None,
    (groups.MemberLag(1, (1, 2)),),
    (groups.PartitionLag(1, 5, 2, 9, 1), groups.PartitionLag(2, None, 2, 9, None)),
)

FAILED = deliveries.ChangedDelivery(DeliveryStep.FAILED, 5, 6, 2, 1_500_000, "", "ValueError: no")
POISONED = deliveries.ChangedDelivery(DeliveryStep.POISONED, 7, 8, 5, 0, "max_attempts", "no")
ACKED = leases.ChangedLease(LeaseStep.DONE, 1 << 63, 5, 9)
GIVEN_UP = leases.ChangedLease(LeaseStep.POISONED, 4, 9, 10, 0, "rejected", "no")
COUNTS = delivery_views.PartitionCounts(1, 5, 4, 3, 2, 1, 1, None, 77)
HISTORY = delivery_views.ToldMessage(
    *(1, 17, DeliveryStatus.POISONED, 3),
    (delivery_views.FailedAttempt(2, 70, 0, "host-1", "a"), delivery_views.FailedAttempt(3, 80, 75, "host-2", "b")),
    *("", None, None, None),
    60,
    *("a", "max_attempts", "shop/dead"),
    *(1, 9),
)
DELIVER = filters.FailurePolicy.DELIVER

EXAMPLES: list[Command[Any]] = [
    messages.FetchMessages("s", "t", 1, PollingKind.OFFSET, 5, 100, 1 << 20, (1, 20, 99), 5000, BILLING, True),
    messages.FetchMessages("s", "t", 1, PollingKind.FIRST, 0, 1),
    messages.WaitMessages("s", "t", {1: 5, 2: 1 << 40}, 1000, "billing", 7, 9),
    messages.WaitMessages("s", "t", {}, 0),
    messages.AppendMessages("s", "t", 3, SENT),
    messages.SetState("s", "t", 1, (1, 5, 1 << 50), 20, "cannot be read"),
    messages.RemoveMarked("s", "t", 1, "headstream erase"),
    messages.ListStates("s", 4, 1),
    messages.MeasureRange("s", "t", 1, 5, 1 << 40, 1000),
    filters.FilterMessages("s", "t", 1, "a >= 3 AND b = '&=%'", PollingKind.NEXT, 0, 5, 1 << 20, (1, 20), DELIVER, BILLING, True),
    filters.FilterMessages("s", "t", 1, "a"),
    filters.FilterMessages("s", "t", 1, "a", until_offset=1 << 40),
    filters.CountSegments("s", "t", "a = '&=%'"),
    deliveries.GetDeliveries("s", "t", "billing", 3),
    deliveries.SettleDeliveries("s", "t", "billing", 3, 9, (FAILED, POISONED), 7, 2, 1 << 40, "shop/dead", True),
    deliveries.SettleDeliveries("s", "t", "billing", 3, 0, (), worker="host-1", succeeded=7),
    deliveries.SettleDeliveries("s", "t", "billing", 3, 0, (), pause_failures=50, pause_attempts=100, pause_us=1 << 33),
    deliveries.SettleDeliveries("s", "t", "billing", 3, 0, ()),
    delivery_views.GetGroupDeliveries("s", "t", "billing"),
    delivery_views.GetDelivery("s", "t", "billing", 3, 1 << 40),
    leases.LeaseMessages(
        *("s", "t", "workers", 7, 1 << 63, 100, 30_000_000, {2: 5}, "host-1", RetryOrder.KEY, 5, "shop/dead", (2, 1), (9,))
    ),
    leases.LeaseMessages("s", "t", "workers", 7, 1, 1, 30_000_000, {}),
    leases.LeaseMessages("s", "t", "workers", 7, 1, 1, 30_000_000, {}, pause_failures=1, pause_attempts=2, pause_us=3),
    leases.SettleLeases("s", "t", "workers", 3, (ACKED, GIVEN_UP), 1 << 40, "shop/dead"),
    leases.SettleLeases("s", "t", "workers", 3, (ACKED,), pause_failures=1, pause_attempts=2, pause_us=3),
    topic_options.CreateOpenTopic("shop", "orders", 4, Limits.WIDE, Fsync.NEVER, 1, 2, 0, 4, True, None, None, True),
    topic_options.CreateOpenTopic("shop", "orders", 0),
    topic_options.CreateOpenTopic("shop", "orders", 1, summary_headers="tenant,user_id"),
    topic_options.GetOpenTopic("shop", "orders"),
    topic_options.ListOpenTopics(),
    topic_options.ListOpenTopics("shop"),
    topic_options.ChangeTopicOptions("shop", "orders", {"retention_us": None, "retention_bytes": 1 << 30}),
    topic_options.ChangeTopicOptions("shop", "orders", {"summary_headers": "tenant"}),
    topic_options.RenameTopic("shop", 1, "purchases"),
    topic_options.GetIdentity(),
    epochs.StageBatch("query", 5, "part-0", 1 << 33, "s", "t", 1, True, SENT),
    epochs.CommitEpoch("a/query", 5, (RECEIPT, RECEIPT)),
    epochs.GetEpoch("query"),
    epochs.UnstageParts("query", 5, (RECEIPT,)),
    groups.GetGroupLag("s", "t", "billing"),
    groups.ListGroupLags("s", "t"),
    groups.SeekGroup("s", "t", "billing", {1: 0, 3: 9}),
    groups.EnterGroup("s", "t", "billing", 60_000),
    groups.EnterGroup("s", "t", "workers", 60_000, True),
    groups.ExitGroup("s", "t", "billing", 3),
    groups.ReportMember("s", "t", "billing", 3, (1, 2), True),
    groups.CommitMember("s", "t", "billing", 3, 7, {1: 5}, {1: 6}, False),
    groups.CommitOffsets("s", "t", BILLING, {1: 5}, {}),
    groups.ListOffsets("s", "t", ConsumerRef(ConsumerKind.CONSUMER, 7)),
    producers.InitProducer(),
    producers.AppendNumbered("s", "t", 3, 1 << 62, 7, (1 << 31) - 1, SENT),
    producers.ReleaseProducer("s", "t", 1 << 62),
]

REPLIES: list[tuple[type[Command[Any]], Any]] = [
    (messages.FetchMessages, messages.FetchedMessages(1, 10, 4, 6, 1, STORED)),
    (messages.RemoveMarked, messages.RemovedMessages(3, 1 << 40, 2, 1)),
    (filters.FilterMessages, filters.FilteredMessages(1, 10, 4, 6, 100, 2, 1, STORED)),
    (filters.CountSegments, filters.CountedSegments(40, 38, 1 << 40, 1 << 39)),
    (
        deliveries.GetDeliveries,
        deliveries.OpenDeliveries(
            5, 9, 77, 1, (deliveries.OffsetRange(6, 8),), (deliveries.OpenDelivery(5, 2, True, 70, 60, 10, "a", "b", "rejected"),)
        ),
    ),
    (deliveries.GetDeliveries, deliveries.OpenDeliveries(None, 0, 77, 0, (), ())),
    (deliveries.GetDeliveries, deliveries.OpenDeliveries(None, 0, 77, 0, (), (), 5_000_000)),
    (deliveries.SettleDeliveries, deliveries.SettledDeliveries(7, 5_000_000)),
    (delivery_views.GetGroupDeliveries, delivery_views.GroupCounts(77, 99, 70, 5, 10, 2, (COUNTS, COUNTS))),
    (delivery_views.GetDelivery, HISTORY),
    (leases.LeaseMessages, leases.LeasedMessages(0, 0, 1_500_000, {}, (), True)),
    (leases.SettleLeases, leases.RefusedChanges((), 5_000_000)),
    (
        leases.LeaseMessages,
        leases.LeasedMessages(2, 1 << 40, None, {}, (leases.LeasedOffsets(5, 9, 0), leases.LeasedOffsets(9, 10, 3))),
    ),
    (leases.LeaseMessages, leases.LeasedMessages(0, 0, 1_500_000, {1: 7, 2: 9}, ())),
    (leases.SettleLeases, leases.RefusedChanges((leases.RefusedChange(5, 6, "it is done"),))),
    (messages.WaitMessages, messages.WaitResult(True)),
    (messages.AppendMessages, messages.FirstOffset(77)),
    (messages.MeasureRange, messages.MeasuredRange(1 << 40, 7)),
    (messages.ListStates, (messages.StateChange(3, 99, "why", "ann", 5),)),
    (topic_options.GetOpenTopic, TOPIC),
    (topic_options.GetOpenTopic, None),
    (topic_options.ListOpenTopics, (TOPIC, TOPIC)),
    (topic_options.GetIdentity, topic_options.Identity("")),
    (epochs.StageBatch, RECEIPT),
    (epochs.CommitEpoch, epochs.CommittedEpoch(5)),
    (epochs.GetEpoch, None),
    (groups.ListGroupLags, (LAG,)),
    (groups.EnterGroup, groups.NewMember(3)),
    (groups.ReportMember, groups.MemberAssignment(7, {1: 5}, {2: 6})),
    (groups.CommitMember, groups.GroupGeneration(7)),
    (groups.ListOffsets, groups.CommittedOffsets({1: 5, 2: 0})),
    (producers.InitProducer, producers.NewProducer(1 << 62, 0)),
    (producers.AppendNumbered, producers.AppendedBatch(77, 1_700_000_000_000_000, 2, True)),
]


def test_every_extension_has_an_example() -> None:
    assert {command.code for command in EXAMPLES} == {code for code in codes.TABLE if code >= 10_000}


def status_when_decoded(command: Command[Any], payload: bytes) -> int | None:
    try:
        command_classes.decode_command(command.code, payload)
    except DecodeError as error:
        return refusals.status_of(error)
    return None


@pytest.mark.parametrize("command", EXAMPLES, ids=id_of)
def test_an_extension_decodes_to_itself_and_wrong_bytes_are_refused(command: Command[Any]) -> None:
    payload = command.encode()
    assert command_classes.decode_command(command.code, payload) == command
    command.validate()
    changed = [payload[:end] for end in range(len(payload))]
    changed += [payload[:at] + bytes([payload[at] ^ 0xFF]) + payload[at + 1 :] for at in range(len(payload))]
    assert {status_when_decoded(command, data) for data in changed} <= {None, 3}


@pytest.mark.parametrize("command", EXAMPLES, ids=id_of)
def test_an_extension_decodes_to_the_same_command_from_its_http_request(command: Command[Any]) -> None:
    assert send_over_http(command) == command


@pytest.mark.parametrize(("kind", "reply"), REPLIES)
def test_a_reply_is_itself_in_bytes_and_in_json(kind: type[Command[Any]], reply: Any) -> None:
    body = kind.encode_reply(reply)
    assert len(body) != 1
    assert kind.decode_reply(body) == reply
    assert kind.reply_from_json(json.loads(json.dumps(kind.reply_to_json(reply)))) == reply


def test_what_older_clients_and_servers_leave_out_has_its_default() -> None:
    """The fields at the end of commands and replies that came later."""
    command = deliveries.SettleDeliveries("s", "t", "billing", 3, 9, (FAILED,))
    assert command_classes.decode_command(command.code, command.encode()[: -(1 + 4 + 4 + 4 + 8)]) == command
    lease = leases.LeaseMessages("s", "t", "workers", 7, 1, 1, 30_000_000, {})
    assert command_classes.decode_command(lease.code, lease.encode()[: -(4 + 4 + 8)]) == lease
    settled = deliveries.SettledDeliveries(7)
    assert deliveries.SettleDeliveries.decode_reply(deliveries.SettleDeliveries.encode_reply(settled)[:-8]) == settled
    leased = leases.LeasedMessages(0, 0, None, {}, ())
    assert leases.LeaseMessages.decode_reply(leases.LeaseMessages.encode_reply(leased)[:-1]) == leased


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (messages.FetchMessages("s", "t", 1, PollingKind.OFFSET, 0, 0), 4009),
        (messages.FetchMessages("s", "t", 1, PollingKind.NEXT, 0, 1), 4),
        (filters.FilterMessages("s", "t", 1, "a", count=0), 4009),
        (filters.FilterMessages("s", "t", 1, "a", PollingKind.NEXT), 4),
        (messages.AppendMessages("s", "t", 1, b""), 4009),
        (deliveries.SettleDeliveries("s", "t", "g", 1, 0, (replace(FAILED, until_offset=5),)), 4),
        (deliveries.SettleDeliveries("s", "t", "g", 1, 0, (replace(POISONED, reason="bad luck"),)), 4),
        (deliveries.SettleDeliveries("s", "t", "g", 1, 0, (FAILED,) * 20_001), 4),
        (deliveries.SettleDeliveries("s", "t", "g", 1, 0, (), pause_failures=0, pause_attempts=9, pause_us=1), 4),
        (leases.SettleLeases("s", "t", "g", 1, (), pause_failures=9, pause_attempts=8, pause_us=1), 4),
        (leases.LeaseMessages("s", "t", "g", 1, 1, 1, 30_000_000, {}, pause_failures=1, pause_attempts=1, pause_us=1 << 60), 4),
        (leases.SettleLeases("s", "t", "g", 1, (replace(ACKED, until_offset=5),)), 4),
        (leases.SettleLeases("s", "t", "g", 1, (replace(GIVEN_UP, until_offset=12),)), 4),
        (leases.SettleLeases("s", "t", "g", 1, (replace(GIVEN_UP, reason="bad luck"),)), 4),
        (leases.SettleLeases("s", "t", "g", 1, (replace(ACKED, step=LeaseStep.EXTENDED, delay_us=1 << 60),)), 4),
        (leases.SettleLeases("s", "t", "g", 1, (ACKED,) * 20_001), 4),
        (topic_options.CreateOpenTopic("s", "", 1), 2014),
        (topic_options.CreateOpenTopic("s", "t", 1001), 2015),
        (epochs.CommitEpoch("", 1, ()), 4),
        (epochs.StageBatch("w", 1, "p", 0, "s", "t", 1, True, b""), 4009),
    ],
)
def test_a_limit_of_an_extension_is_refused_with_its_status(command: Command[Any], status: int) -> None:
    with pytest.raises(HeadstreamError) as caught:
        command.validate()
    assert refusals.status_of(caught.value) == status


def test_json_of_an_extension_names_the_place_that_is_wrong() -> None:
    path = {"stream_id": "s", "topic_id": "t", "partition_id": "1"}
    with pytest.raises(DecodeError) as caught:
        messages.SetState.from_json(path, {}, {"offsets": [1, "x"], "state": "poisoned"})
    assert caught.value.where == "body.offsets[1]"
    with pytest.raises(DecodeError, match="state name"):
        messages.SetState.from_json(path, {}, {"offsets": [], "state": 20})
    with pytest.raises(DecodeError, match="consumer:NAME"):
        groups.ListOffsets.from_json(path, {"consumer": "billing"}, None)
    with pytest.raises(InvalidInputError):
        messages.WaitMessages("s", "t", {1 << 33: 0}, 0).encode()
