"""SmallRequests: numbered batches are answered and stored alike by both ways."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headstream.core.model.partitioning import Partitioning
from headstream.core.wire.codes import Code
from headstream.core.wire.commands.permissions import GlobalPermissions, Permissions
from headstream.core.wire.commands.users import UpdatePermissions
from headstream.core.wire.frames import request_head
from headstream.log.segments.layout import PRODUCERS_NAME
from tests.support import kernels
from tests.support.server.servers import Server
from tests.support.server.small_clients import Client, appended, numbered, payloads_of, poll, send, with_topic

WAYS = kernels.variants("headstream.server.iggy.fast_path.small_requests")
ALL_MAY_POLL_AND_SEND = GlobalPermissions(poll_messages=True, send_messages=True)


@pytest.fixture(params=WAYS, ids=kernels.name_of)
def ways(request: pytest.FixtureRequest) -> ModuleType:
    module: ModuleType = request.param
    return module


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(directory=tmp_path / "log")
    yield server
    server.broker.close()


@pytest.fixture
def client(server: Server, ways: ModuleType) -> Client:
    return Client(with_topic(server), ways)


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
