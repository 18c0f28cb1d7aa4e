"""Bytes that no client should send, to the running server: answered as a model of the framing says, and nobody else notices.

The model knows only where frames begin and end. For each frame that is whole it expects one response: a reply that
decodes, or a status that has a name; for one that claims too much, status 3 and a closed connection.
"""

from __future__ import annotations

import itertools
import json
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import headstream as hs
from headstream.core.wire.codes import EXTENSION_CONTEXT, Code
from headstream.core.wire.command_classes import COMMANDS, decode_command
from headstream.core.wire.commands.sessions import Login, Ping
from headstream.core.wire.commands.streams import CreateStream, DeleteStream, ListStreams
from headstream.core.wire.commands.users import CreateUser, UserStatus
from headstream.core.wire.frames import MAX_FRAME_BYTES, encode_request
from headstream.core.wire.refusals import decode_refusal
from headstream.core.wire.statuses import Status
from tests.behaviour.conformance.scenes import create_topic, poll, polled, send
from tests.support.server.peers import TcpPeer
from tests.support.server.server_process import ServerProcess
from tests.support.server.vsr_peer import VsrPeer, batch, frame, login_body, request_frame, send_body
from tests.unit.core.wire.test_commands import EXAMPLES
from tests.unit.core.wire.test_extensions import EXAMPLES as OWN_EXAMPLES

KEPT = 0x7EAD_BEEF
"""A stream that no fuzz finds: its messages are looked at after each attack."""

PAYLOADS = [b"kept %d" % number for number in range(5)]
ROOT = ("keeper", "of the arena")
"""Not the name and password that captured logins have: nothing of an attack is done as root."""

RIGHTS = hs.Permissions(hs.GlobalPermissions(False, True, False, True, True, True, True, True, True, True))
"""All but those that let the fuzz lock the test out: managing users and servers."""

SPARE_BYTES = 96 << 20
"""How much memory a run may add: the pool of buffers, caches, a frame of 64 MB that came whole."""

PING = encode_request(Code.PING)


def captured_frames() -> list[bytes]:
    records = json.loads((Path(__file__).parents[1] / "vectors" / "iggy-vectors.json").read_text())
    return [bytes.fromhex(record["hex"]) for record in records if record["direction"] == "client_to_server"]


FRAMES = sorted({*captured_frames(), *(encode_request(command.code, command.encode()) for command in [*EXAMPLES, *OWN_EXAMPLES])})


class Expected(NamedTuple):
    """What the framing says of some bytes: the code of each whole frame, None where it has none, and how it ends."""

    codes: list[int | None]
    is_closed: bool
    is_whole: bool


def read_frames(data: bytes) -> Expected:
    at, codes = 0, list[int | None]()
    while len(data) - at >= 4:
        length = int.from_bytes(data[at : at + 4], "little")
        if length + 4 > MAX_FRAME_BYTES:
            return Expected([*codes, None], True, True)
        if at + 4 + length > len(data):
            return Expected(codes, False, False)
        codes.append(int.from_bytes(data[at + 4 : at + 8], "little") if length >= 4 else None)
        at += 4 + length
    return Expected(codes, False, at == len(data))


def waits_long(frame: bytes) -> bool:
    """Return whether a frame asks the server to wait, so that the answer would be as late as it asks for."""
    try:
        return getattr(decode_command(int.from_bytes(frame[4:8], "little"), frame[8:]), "timeout_ms", 0) > 10
    except hs.HeadstreamError:
        return False


def check_response(code: int | None, status: int, body: bytes, is_extended: bool) -> None:
    if status == 0:
        assert code is not None
        assert len(body) != 1
        COMMANDS[code].decode_reply(body)
        return
    assert status in Status.__members__.values(), status
    assert status != Status.ERROR, f"command {code}: {body!r}"
    if body:
        assert is_extended
        assert decode_refusal(status, body).what


class Arena:
    """A server under attack.

    Args:
        server: It.
    """

    def __init__(self, server: ServerProcess) -> None:
        self.server = server
        self.root = TcpPeer(server.tcp)
        self.root.login(*ROOT)
        self.root.ask(CreateStream(KEPT, "kept"))
        self.root.ask(create_topic(KEPT, "kept"))
        send(self.root, PAYLOADS, hs.Partitioning.partition(1), KEPT, "kept")
        with self._connect() as log:  # an attack may name the stream: a request that is changed can delete it
            log.update_topic("kept/kept", legal_hold=True)
        self.root.ask(CreateUser("fuzz", "secret", UserStatus.ACTIVE, RIGHTS))
        self.limit_bytes = server.resident_bytes + SPARE_BYTES

    def attack(self, data: bytes, *, is_extended: bool = False, piece: int | None = None) -> None:
        """Send bytes on a new connection, and check its answers and that nobody else notices.

        Args:
            data: The bytes.
            is_extended: Whether Headstream's own commands are open to the connection.
            piece: How many bytes are sent at once; None is all of them.
        """
        expected = read_frames(data)
        with TcpPeer(self.server.tcp, timeout_s=30) as peer:
            peer.ask(Login("fuzz", "secret", "0.6.210", EXTENSION_CONTEXT) if is_extended else Login("fuzz", "secret"))
            try:
                for begin in range(0, len(data), piece or len(data) or 1):
                    peer.socket.sendall(data[begin : begin + (piece or len(data))])
                self._check_answers(peer, expected, is_extended)
            except ConnectionError:  # bytes behind the frame that ends it were still under way: they undo what was answered
                assert expected.is_closed
        self.look_around()

    def look_around(self) -> None:
        """Check that another client is served, that what is stored is whole, and that memory is bounded."""
        self.root.ask(Ping())
        messages = polled(poll(self.root, stream=KEPT, topic="kept"))
        assert [message.payload for message in messages] == PAYLOADS
        assert self.server.resident_bytes < self.limit_bytes

    def tidy(self) -> None:
        """Delete what the attacks have made, also topics under a legal hold."""
        with self._connect() as log:
            for topic in log.topics():
                if topic.legal_hold and topic.stream != "kept":
                    log.update_topic(f"{topic.stream}/{topic.name}", legal_hold=False)
        for stream in self.root.ask(ListStreams()):
            if stream.id != KEPT:
                self.root.ask(DeleteStream(stream.id))

    def _connect(self) -> hs.Client:
        return hs.connect(f"headstream://{ROOT[0]}:{quote(ROOT[1])}@{self.server.tcp[0]}:{self.server.tcp[1]}")

    def _check_answers(self, peer: TcpPeer, expected: Expected, is_extended: bool) -> None:
        """Check that each frame has an answer of its own, and that the connection ends or goes on as it should."""
        for code in expected.codes[:-1] if expected.is_closed else expected.codes:
            status, body = peer.receive()
            check_response(code, status, body, is_extended)
            is_extended |= code in (Code.LOGIN, Code.LOGIN_WITH_TOKEN)
        if expected.is_closed:
            assert peer.receive() == (Status.INVALID_COMMAND, b"")
            assert peer.is_closed()
        elif expected.is_whole:
            assert peer.exchange(PING) == (0, b"")


@pytest.fixture(scope="module")
def arena(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Arena]:
    """A server with a stream to be kept, which ends well and has met no fault of its own."""
    environ = dict(zip(("IGGY_ROOT_USERNAME", "IGGY_ROOT_PASSWORD"), ROOT, strict=True))
    with ServerProcess(tmp_path_factory.mktemp("server"), environ=environ) as server:
        arena = Arena(server)
        with arena.root:
            yield arena
            arena.look_around()
        assert server.stop() == 0, server.output
        assert "Traceback" not in server.output, server.output
        assert "internal error" not in server.output, server.output


# -- mutations of what real clients send ----------------------------------------------------------------------------


def truncate(frame: bytes, chance: random.Random) -> bytes:
    """The payload ends early, and the length says so."""
    end = chance.randint(8, len(frame))
    return struct.pack("<I", end - 4) + frame[4:end]


def flip(frame: bytes, chance: random.Random) -> bytes:
    """Some bytes are others, the length is not."""
    changed = bytearray(frame)
    for _ in range(chance.choice([1, 1, 2, 5])):
        changed[chance.randrange(4, len(changed))] ^= chance.choice([1, 0x80, 0xFF, chance.randint(1, 255)])
    return bytes(changed)


def grow(frame: bytes, chance: random.Random) -> bytes:
    """Bytes are put in somewhere."""
    at = chance.randint(8, len(frame))
    changed = frame[:at] + chance.randbytes(chance.choice([1, 4, 100])) + frame[at:]
    return struct.pack("<I", len(changed) - 4) + changed[4:]


def recode(frame: bytes, chance: random.Random) -> bytes:
    """Another command with the same payload."""
    return frame[:4] + struct.pack("<I", chance.choice([*COMMANDS, chance.getrandbits(32)])) + frame[8:]


def enlarge(frame: bytes, chance: random.Random) -> bytes:
    """A number or a length in it is as large as it can be."""
    at = chance.randrange(8, max(len(frame) - 3, 9))
    changed = frame[:at] + chance.choice([b"\xff" * 4, b"\xff" * 8, b"\0" * 4, b"\xff\xff\xff\x7f"]) + frame[at + 4 :]
    return struct.pack("<I", len(changed) - 4) + changed[4:]


MUTATIONS: tuple[Callable[[bytes, random.Random], bytes], ...] = (truncate, flip, flip, grow, recode, enlarge)


def mutate(chance: random.Random) -> bytes:
    frame = chance.choice(FRAMES)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        frame = chance.choice(MUTATIONS)(frame, chance)
    return frame if not waits_long(frame) else PING


def spoil(data: bytes, chance: random.Random) -> bytes:
    """What breaks the framing itself: a length that is not true, a claim of gigabytes, half a frame, noise at the end."""
    kind = chance.randrange(5)
    if kind == 0:
        return data + struct.pack("<I", chance.choice([0xFFFF_FFFF, MAX_FRAME_BYTES - 3, 1 << 31])) + chance.randbytes(50)
    if kind == 1:
        return data + struct.pack("<I", MAX_FRAME_BYTES - 4) + chance.randbytes(1000)
    if kind == 2:
        return data[: chance.randint(0, len(data))]
    if kind == 3:
        return data + b"".join(struct.pack("<I", length) + bytes(length) for length in (0, 1, 2, 3))
    return data + chance.randbytes(chance.randint(1, 3))


def run_mutations(arena: Arena, seed: int, rounds: int) -> None:
    for number in range(rounds):
        chance = random.Random(f"{seed}/{number}")  # one round can be run again by itself
        glued = b"".join(mutate(chance) for _ in range(chance.choice([1, 5, 30])))
        data = spoil(glued, chance) if chance.random() < 0.3 else glued
        piece = chance.choice([None, None, 1, 7, 1000]) if len(data) < 5000 else None
        try:
            arena.attack(data, is_extended=chance.random() < 0.5, piece=piece)
        except BaseException as error:
            error.add_note(f"round {number} of seed {seed}: {data[:2000].hex()}")
            raise
        if number % 20 == 19:
            arena.tidy()


def test_changed_frames_of_real_clients_are_answered_or_refused(arena: Arena) -> None:
    run_mutations(arena, seed=1, rounds=60)


@pytest.mark.soak
def test_changed_frames_of_real_clients_for_long(arena: Arena) -> None:
    for seed in range(100):
        run_mutations(arena, seed, rounds=200)


# -- anything at all ------------------------------------------------------------------------------------------------

CODES = st.sampled_from(sorted(COMMANDS)) | st.integers(0, (1 << 32) - 1)
WHOLE = st.builds(encode_request, CODES, st.binary(max_size=200)).filter(lambda frame: not waits_long(frame))
PIECES = st.lists(WHOLE | st.binary(max_size=40), max_size=6).map(b"".join)


FUNCTION_FIXTURES = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@example(b"\xff\xff\xff\xff", False)
@example(b"\0\0\0\0" * 1000, False)
@example(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", False)
@example(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), False)
@settings(max_examples=60, deadline=None, suppress_health_check=FUNCTION_FIXTURES)
@given(PIECES, st.booleans())
def test_any_bytes_are_answered_as_the_framing_says(arena: Arena, data: bytes, is_extended: bool) -> None:
    arena.attack(data, is_extended=is_extended)


@pytest.mark.soak
@settings(max_examples=5000, deadline=None, suppress_health_check=FUNCTION_FIXTURES)
@given(PIECES, st.booleans())
def test_the_server_survives_any_bytes_for_long(arena: Arena, data: bytes, is_extended: bool) -> None:
    arena.attack(data, is_extended=is_extended)


def test_a_claim_of_four_gigabytes_takes_no_memory(arena: Arena) -> None:
    before_bytes = arena.server.resident_bytes
    peers = [TcpPeer(arena.server.tcp) for _ in range(50)]
    for peer, length in zip(peers, itertools.cycle([0xFFFF_FFFF, MAX_FRAME_BYTES - 4])):
        peer.socket.sendall(struct.pack("<II", length, Code.SEND_MESSAGES) + bytes(10_000))
    arena.look_around()
    assert arena.server.resident_bytes - before_bytes < 32 << 20
    for peer in peers:
        peer.close()
    arena.look_around()


def test_many_clients_that_vanish_in_the_middle_of_a_frame_leave_nothing(arena: Arena) -> None:
    frame = max(FRAMES, key=len)
    for end in range(0, len(frame), max(len(frame) // 200, 1)):
        with TcpPeer(arena.server.tcp) as peer:
            peer.socket.sendall(frame[:end])
    arena.look_around()


# -- frames of Iggy's protocol 0.11 -----------------------------------------------------------------------------------

ORDERS = b"\x02\x04kept\x02\x04kept"
TODAY: list[tuple[int, int, bytes]] = [
    *((2, code, body) for code in (1, 10, 12, 20, 22, 32, 41, 201, 999, 38) for body in (b"",)),
    *((2, code, ORDERS) for code in (200, 300, 301, 601)),
    *((2, 600 + number, ORDERS + b"\x02\x01g") for number in (0, 6)),
    (2, 13, b"\x01"),
    (2, 31, b"\x02\x04fuzz"),
    (2, 100, b"\x01\x01\x04\x01\x00\x00\x00" + ORDERS + b"\x01" + bytes(4) + b"\x01" + bytes(8) + b"\x0a" + bytes(4)),
    (2, 120, b"\x01\x01\x04\x01\x00\x00\x00" + ORDERS + b"\x01" + bytes(4)),
    (1, 0, login_body("fuzz", "secret")),
    (1, 0, login_body("fuzz", "wrong")),
    (128, 0, b"\x04made"),
    (132, 0, b"\x02\x04made\x02\x00\x00\x00\x06orders" + b"\x02\x0a\x00\x00\x00durability\x02\x09\x00\x00\x00persisted"),
    (139, 0, b"\x02\x04made\x02\x06orders\x01g"),
    (148, 0, b"\x02\x04made\x02\x06orders\x02\x01g"),
    (160, 0, send_body("made", "orders", batch([frame(b"fuzz", b"\x02\x01\x00\x00\x00k\x09\x01\x00\x00\x00\x03")], origin=5))),
    (161, 0, b"\x01\x01\x04\x01\x00\x00\x00\x02\x04made\x02\x06orders\x01" + bytes(4) + bytes(8) + b"\x01"),
    (64, 0, b""),
    (3, 0, b""),
]


def attack_today(arena: Arena, chance: random.Random) -> None:
    """Send requests with wrong bytes on a connection, until it is closed: each is answered, and nobody else notices."""
    with VsrPeer(arena.server.tcp, "fuzz", "secret") as peer:
        for _ in range(8):
            operation, code, body = chance.choice(TODAY)
            data = bytearray(
                request_frame(operation, body, code=code, session=peer.session, number=chance.choice([0, 1, 1 << 63]))
            )
            for _ in range(chance.choice([0, 1, 1, 3])):
                at = chance.randrange(256, len(data)) if body and chance.random() < 0.7 else chance.randrange(4, 256)
                data[at] ^= chance.choice([1, 0x80, 0xFF])
            end = chance.randrange(1, len(data) + 1) if chance.random() < 0.2 else len(data)
            if chance.random() < 0.5:  # the size says what is sent, or a lie
                data[48:52] = struct.pack("<I", chance.choice([end, end, 255, 256, 1 << 31]))
            size = int.from_bytes(data[48:52], "little")
            peer.socket.sendall(data[:end])
            if end < 256 or (256 <= size <= MAX_FRAME_BYTES and end < size):
                return  # the rest never comes
            try:
                answer = peer.receive()
            except ConnectionError:
                return
            assert answer.status in {0, *Status.__members__.values()}
            assert answer.status != Status.ERROR
            if end > size >= 256:
                return  # what follows is no frame


def run_today(arena: Arena, seed: int, rounds: int) -> None:
    for number in range(rounds):
        try:
            attack_today(arena, random.Random(f"{seed}/{number}"))
            arena.look_around()
        except Exception as error:
            error.add_note(f"round {number} of seed {seed}")
            raise
    arena.tidy()


def test_server_answers_frames_of_protocol_0_11_with_wrong_bytes(arena: Arena) -> None:
    run_today(arena, seed=1, rounds=40)


def test_server_evicts_writes_and_answers_reads_of_protocol_0_11_before_a_login(arena: Arena) -> None:
    with VsrPeer(arena.server.tcp, "") as peer:
        assert peer.read(1).status == 0
        assert peer.read(201).status == Status.UNAUTHENTICATED
        assert peer.ask(128, b"\x04made").eviction == 1
        assert peer.ask(1, login_body("fuzz", "wrong")).eviction == 9
        assert peer.ask(1, login_body("fuzz", "secret", version=12 << 10)).eviction == 14
        with pytest.raises(ConnectionError):
            peer.read(1)


@pytest.mark.soak
def test_server_answers_many_frames_of_protocol_0_11_with_wrong_bytes(arena: Arena) -> None:
    for seed in range(50):
        run_today(arena, seed, rounds=200)
