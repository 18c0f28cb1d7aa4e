"""SmallRequests: what is answered on the fast path is what the general path answers, whatever changes in between."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.model.partitioning import Partitioning
from headstream.core.model.topology import Limits
from headstream.core.wire.codes import EXTENSION_CONTEXT, Code
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions
from headstream.core.wire.commands.sessions import Login, Logout, Ping
from headstream.core.wire.commands.topics import Compression, CreateTopic, DeleteTopic, PurgeTopic
from headstream.core.wire.commands.users import ChangePassword, DeleteUser, UpdatePermissions, UpdateUser, UserStatus
from headstream.core.wire.extensions.messages import SetState
from headstream.core.wire.extensions.topic_options import CreateOpenTopic
from headstream.core.wire.frames import request_head
from headstream.core.wire.records import Command
from headstream.log.segments.layout import PRODUCERS_NAME
from tests.support import kernels
from tests.support.server.servers import Server
from tests.support.server.small_clients import Client, appended, frame_of, numbered, payloads_of, poll, send, with_topic

WAYS = kernels.variants("headstream.server.iggy.fast_path.small_requests")
ways = kernels.fixture("headstream.server.iggy.fast_path.small_requests")
ALL_MAY_POLL_AND_SEND = GlobalPermissions(poll_messages=True, send_messages=True)


@pytest.fixture(params=WAYS, ids=kernels.name_of, scope="module")
def unchanged(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a topic with one message, for requests that change nothing."""
    server = Server(directory=tmp_path_factory.mktemp("unchanged") / "log")
    client = Client(with_topic(server), request.param)
    client.ask(send(b"first"))
    yield client
    server.broker.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(directory=tmp_path / "log")
    yield server
    server.broker.close()


@pytest.fixture
def client(server: Server, ways: ModuleType) -> Client:
    return Client(with_topic(server), ways)


PARTITIONINGS = st.one_of(
    st.just(Partitioning.balanced()),
    st.integers(0, 4).map(Partitioning.partition),
    st.binary(min_size=1, max_size=4).map(Partitioning.key),
)
PAYLOADS = st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=4)
ASKED: st.SearchStrategy[Callable[[], Command[Any]]] = st.one_of(
    st.builds(lambda payloads, to: lambda: send(*payloads, to=to), PAYLOADS, PARTITIONINGS),
    st.builds(lambda payloads: lambda: send(*payloads), PAYLOADS),
    st.builds(
        lambda offset, count, partition, commits: lambda: poll(offset, count, partition=partition, commits=commits),
        st.integers(0, 12),
        st.integers(0, 3),
        st.integers(0, 3),
        st.booleans(),
    ),
    st.builds(
        lambda payloads, sequence, epoch, producer, user, partition: (
            lambda: numbered(*payloads, sequence=sequence, epoch=epoch, producer=producer, user=user, partition=partition)
        ),
        PAYLOADS,
        st.integers(0, 4),
        st.integers(0, 2),
        st.integers(1, 2),
        st.sampled_from([1, 1, 1, 2]),
        st.sampled_from([1, 1, 2, 0, 9]),
    ),
    st.just(Ping),
    st.just(lambda: send(b"nowhere", topic="none")),
    st.just(lambda: PurgeTopic("shop", "orders")),
    st.just(lambda: SetState("shop", "orders", 1, (0,), 3)),
)


@settings(max_examples=30, deadline=None)
@given(groups=st.lists(st.lists(ASKED, min_size=1, max_size=6), max_size=25))
def test_fast_path_answers_what_the_general_path_answers(groups: list[list[Callable[[], Command[Any]]]]) -> None:
    found = []
    for ways in (None, *WAYS):
        with tempfile.TemporaryDirectory() as root:
            server = Server(directory=Path(root) / "log")
            client = Client(with_topic(server), ways)
            client.peer.session.is_extended = True
            answers = [client.ask(*(make() for make in group)) for group in groups]
            found.append([answer.replace(root.encode(), b"root") for answer in answers])  # errors name the place
            server.broker.close()
    assert all(each == found[0] for each in found)


def test_reading_on_takes_the_fast_path(client: Client) -> None:
    for number in range(30):
        client.ask(send(b"%d" % number))
    assert [payloads_of(client.ask(poll(offset))) for offset in range(28)] == [[b"%d" % offset] for offset in range(28)]
    assert client.traffic.commands[Code.POLL_MESSAGES].done > 20
    assert payloads_of(client.ask(poll(28, 5))) == [b"28", b"29"]


def test_a_few_messages_from_anywhere_take_the_fast_path(client: Client) -> None:
    for number in range(50):
        client.ask(send(b"%d" % number))
    client.ask(poll(0))
    for offset, count in ((7, 1), (3, 20), (49, 1), (0, 50), (23, 10)):
        assert client.is_short(poll(offset, count))
        assert payloads_of(client.ask(poll(offset, count))) == [b"%d" % number for number in range(offset, offset + count)]
    client.ask(send(bytes(12_000)))
    client.ask(send(bytes(12_000)))
    assert not client.is_short(poll(50, 2))  # as much as another thread may have to read
    assert not client.is_short(poll(51, 2))  # more may have come since
    assert not client.is_short(poll(60, 1))


def test_many_requests_that_come_together_are_answered_together(client: Client, server: Server) -> None:
    client.ask(send(b"first"))
    frames = b"".join(frame_of(send(b"%d" % number)) for number in range(20)) + frame_of(Logout())
    assert client.short is not None
    at, responses = client.short.answer(memoryview(frames), len(frames))
    assert at == len(frames) - len(frame_of(Logout()))
    assert responses == bytes(8 * 20)


def test_balanced_sends_go_round_whichever_way_they_go(client: Client) -> None:
    for number in range(7):
        client.ask(send(b"%d" % number, to=Partitioning.balanced()))
    assert [payloads_of(client.ask(poll(0, 9, partition=each))) for each in (1, 2, 3)] == [
        [b"0", b"3", b"6"],
        [b"1", b"4"],
        [b"2", b"5"],
    ]


@pytest.mark.parametrize("size", range(len(frame_of(send(b"x")))))
def test_half_a_request_is_left_where_it_is(unchanged: Client, size: int) -> None:
    assert unchanged.short is not None
    whole = frame_of(Ping())
    assert unchanged.short.answer(memoryview(whole + frame_of(send(b"x"))[:size]), len(whole) + size) == (len(whole), bytes(8))


def test_a_send_whose_lengths_lie_takes_the_general_path(client: Client) -> None:
    client.ask(send(b"first"))
    assert client.is_short(send(b"second"))
    payload = bytearray(send(b"third").encode())
    for at in range(len(payload)):
        for value in (0, 200, 255):
            lie = payload[:at] + bytes([value]) + payload[at + 1 :]
            frame = request_head(101, len(lie)) + lie
            assert client.short is not None
            client.short.answer(memoryview(frame), len(frame))  # what it is, is the codec's to say; nothing breaks
    assert client.ask(Ping()) == bytes(8)


def test_a_client_that_has_logged_out_has_no_fast_path(client: Client) -> None:
    client.ask(send(b"first"))
    assert client.is_short(Ping())
    client.ask(Logout())
    assert not client.is_short(Ping())
    assert not client.is_short(send(b"second"))


@pytest.mark.parametrize("state", ["is_stale", "is_ended"])
def test_a_session_that_is_over_has_no_fast_path(client: Client, state: str) -> None:
    client.ask(send(b"first"))
    setattr(client.peer.session, state, True)
    assert not client.is_short(send(b"second"))


def test_a_right_that_is_taken_away_ends_the_fast_path(server: Server, ways: ModuleType) -> None:
    root = with_topic(server)
    user = server.add_user("clerk", Permissions(ALL_MAY_POLL_AND_SEND))
    clerk = Client(server.connect().log_in("clerk", "clerkclerk"), ways)
    for number in range(5):
        clerk.ask(send(b"%d" % number))
        clerk.ask(poll(number))
    assert clerk.is_short(send(b"more"))
    root.ask(UpdatePermissions(user.id, None))
    assert not clerk.is_short(send(b"more"))
    assert not clerk.is_short(poll(5))
    root.ask(UpdatePermissions(user.id, Permissions(ALL_MAY_POLL_AND_SEND)))
    assert clerk.is_short(send(b"more"))
    root.ask(DeleteUser(user.id))
    assert not clerk.is_short(Ping())


def test_a_topic_that_is_made_anew_under_its_name_is_another_one(client: Client) -> None:
    for _ in range(3):
        client.ask(send(b"old"))
    assert client.is_short(send(b"old"))
    client.peer.ask(DeleteTopic("shop", "orders"))
    assert not client.is_short(send(b"gone"))
    client.peer.ask(CreateTopic("shop", 0, 1, Compression.NONE, 0, 0, 0, "orders"))
    client.ask(send(b"new"))
    assert client.is_short(send(b"newer"))
    assert payloads_of(client.ask(poll(0, 9))) == [b"new", b"newer"]


def test_a_message_that_is_set_aside_while_it_is_kept_ready_is_stepped_over(client: Client) -> None:
    for number in range(10):
        client.ask(send(b"%d" % number))
    for offset in range(4):
        client.ask(poll(offset))
    assert client.is_short(poll(4))
    client.peer.session.is_extended = True
    client.peer.ask(SetState("shop", "orders", 1, (5,), 3))
    client.peer.session.is_extended = False
    assert not client.is_short(poll(5))
    assert payloads_of(client.ask(poll(5))) == [b"6"]


def test_a_wide_topic_has_no_fast_path_for_a_client_that_cannot_read_it(client: Client) -> None:
    client.peer.ask(Login("iggy", "iggy", "1.0.0", EXTENSION_CONTEXT))
    client.peer.ask(CreateOpenTopic("shop", "wide", 1, Limits.WIDE))
    client.ask(send(b"first", topic="wide"))
    assert client.is_short(send(b"second", topic="wide"))
    client.peer.ask(Login("iggy", "iggy"))
    assert not client.is_short(send(b"third", topic="wide"))
    assert not client.is_short(poll(0, topic="wide"))


@pytest.mark.parametrize("surplus", [b"\0", b"\1\0\0\0", bytes([1]) + bytes(13), bytes([1]) * 14, bytes([0, 1]) * 9])
def test_poll_with_bytes_behind_its_last_field_is_answered_as_without(server: Server, ways: ModuleType, surplus: bytes) -> None:
    client = Client(with_topic(server), ways)
    client.ask(send(b"a"), send(b"b", first_id=2), send(b"c", first_id=3))
    plain = client.ask(poll(1, 2))
    payload = poll(1, 2).encode() + surplus
    frame = request_head(Code.POLL_MESSAGES, len(payload)) + payload
    for _ in range(3):
        assert client.short is not None
        assert client.short.answer(memoryview(frame), len(frame)) == (0, b"")
        assert b"".join(client.answers.find(Code.POLL_MESSAGES, memoryview(payload))[1]) == plain
        assert client.ask(poll(1, 2)) == plain


@pytest.mark.parametrize(
    "command", [UpdateUser("alice", status=UserStatus.INACTIVE), ChangePassword("alice", "alicealice", "another")], ids=repr
)
def test_fast_path_ends_at_once_for_a_user_that_is_deactivated_or_has_another_password(
    server: Server, ways: ModuleType, command: Command[Any]
) -> None:
    root = with_topic(server)
    client = Client(server.connect_as("alice", Permissions(ALL_MAY_POLL_AND_SEND)), ways)
    client.ask(send(b"a"))
    assert client.is_short(send(b"b", first_id=2))
    client.ask(poll(0))
    assert client.is_short(poll(0))
    root.ask(command)
    assert not client.is_short(send(b"c", first_id=3))
    assert not client.is_short(poll(0))
    assert client.ask(send(b"c", first_id=3)) == struct.pack("<II", 40, 0)
    assert payloads_of(Client(root, ways).ask(poll(0, 10))) == [b"a", b"b"]


# -- numbered batches, which both ways answer and store alike ------------------------------------------------------------


NUMBERED: st.SearchStrategy[tuple[int, int, int, int, int, bool]] = st.tuples(
    st.integers(1, 3),
    st.sampled_from([1, 1, 1, 2]),
    st.integers(1, 2),
    st.sampled_from([0, 0, 0, 0, 1, 2, -1]),
    st.integers(0, 9),
    st.booleans(),
)


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(NUMBERED, max_size=60))
def test_numbered_batches_are_answered_and_stored_alike_by_both_ways(steps: list[tuple[int, int, int, int, int, bool]]) -> None:
    found = []
    for ways in (None, *WAYS):
        with tempfile.TemporaryDirectory() as root:
            server = Server(directory=Path(root) / "log")
            client = Client(with_topic(server), ways)
            client.peer.session.is_extended = True
            answers, sequences, epochs = [], dict[tuple[int, int], int](), dict[int, int]()
            for count, partition, producer, ahead, change, is_sent_again in steps:
                if change == 0:
                    epochs[producer] = epochs.get(producer, 0) + 1
                    sequences = {place: each for place, each in sequences.items() if place[0] != producer}
                sequence = sequences.get((producer, partition), 0) + ahead
                batch = numbered(
                    *(b"%d" % number for number in range(count)),
                    sequence=max(sequence, 0),
                    epoch=epochs.get(producer, 0),
                    producer=producer,
                    partition=partition,
                )
                answers.append(client.ask(batch))
                if answers[-1][:4] == bytes(4):
                    sequences[producer, partition] = max(sequence, 0) + count
                if is_sent_again:
                    answers.append(client.ask(batch))
                if change == 1:
                    client.ask(send(b"another's", to=Partitioning.partition(partition)))
            server.broker.close()
            files = {
                path.relative_to(root): path.read_bytes()
                for path in sorted(Path(root).rglob("*"))
                if path.is_file() and (path.suffix in {".log", ".index"} or path.name == PRODUCERS_NAME)
            }
            found.append(([answer.replace(root.encode(), b"root") for answer in answers], files))
    assert all(each == found[0] for each in found)


def test_numbered_batches_take_the_fast_path_from_their_second_one_on(client: Client) -> None:
    client.peer.session.is_extended = True
    client.ask(send(b"first"))
    assert not client.is_short(numbered(b"1", sequence=0))
    assert appended(client.ask(numbered(b"1", sequence=0))).offset == 1
    for sequence in range(1, 20):
        assert client.is_short(numbered(b"%d" % sequence, sequence=sequence))
        again = appended(client.ask(numbered(b"%d" % sequence, sequence=sequence)))
        assert (again.offset, again.is_repeat) == (sequence + 1, True)
    assert not client.is_short(numbered(b"x", sequence=30))
    assert not client.is_short(numbered(b"x", sequence=20, epoch=1))
    assert not client.is_short(numbered(b"x", sequence=20, user=2))
    assert not client.is_short(numbered(b"x", sequence=20, producer=1 << 43))
    client.peer.session.is_extended = False
    assert not client.is_short(numbered(b"x", sequence=20))
    assert len(payloads_of(client.ask(poll(0, 99)))) == 21


def test_right_to_send_that_is_taken_away_ends_the_fast_path_of_numbered_batches(server: Server, ways: ModuleType) -> None:
    root = with_topic(server)
    user = server.add_user("clerk", Permissions(ALL_MAY_POLL_AND_SEND))
    clerk = Client(server.connect().log_in("clerk", "clerkclerk"), ways)
    clerk.peer.session.is_extended = True
    for sequence in range(3):
        clerk.ask(numbered(b"x", sequence=sequence, user=user.id))
    assert clerk.is_short(numbered(b"x", sequence=3, user=user.id))
    root.ask(UpdatePermissions(user.id, None))
    assert not clerk.is_short(numbered(b"x", sequence=4, user=user.id))


@pytest.mark.parametrize("at", range(60))
def test_numbered_batch_whose_bytes_lie_is_answered_as_by_the_general_path(client: Client, at: int) -> None:
    client.peer.session.is_extended = True
    for sequence in range(3):
        client.ask(numbered(b"x", sequence=sequence))
    payload = numbered(b"third", sequence=3).encode()
    for value in (0, 200, 255):
        lie = payload[:at] + bytes([value]) + payload[at + 1 :]
        frame = request_head(Code.APPEND_NUMBERED, len(lie)) + lie
        before = payloads_of(client.ask(poll(0, 99)))
        assert client.short is not None
        if client.short.answer(memoryview(frame), len(frame))[0]:
            found = appended(client.answers_of(frame))  # the same again: it is known then
            assert (found.offset, found.is_repeat) == (len(before), True)
            return
