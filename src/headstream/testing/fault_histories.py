"""Generated histories of a log's partitions over faulty files, checked against a model.

A history is a row of steps that a seed decides: appends of random batches to a few partitions of any policy with small
segments, syncs, reads, full disks, failed writes, reads and syncs, kills at any operation (recovery's included), power
cuts, closing and opening again. The model knows what was sent and what came of it:

    acknowledged      there, whole, in order, once, after any number of kills
    refused           not there
    neither           the sender was killed, or told that a sync failed: there whole, or not there
    after a power cut, what was synced is there (`always`: all that was acknowledged); of the rest the last ones may be
    gone, and one that later ones follow may be damaged, which readers are told of
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

from headstream.codec.binary import decode_polled, encode_sent
from headstream.errors import CorruptSendError, DiskFullError, PartitionClosedError, StorageError
from headstream.log.partition import Partition
from headstream.model.message import Message
from headstream.model.topology import Fsync
from headstream.segments.follower import PartitionFollower
from headstream.testing.faulty_files import FaultyFiles, Killed

__all__ = ["Appendable", "FaultHistory", "Modelled", "Send"]

_PATIENCE: Final = 50
"""How often a partition may refuse to open under faults before they are ended."""


@dataclass(slots=True)
class Send:
    """A send, and what is known of it."""

    payloads: list[bytes]
    is_certain: bool
    is_damaged: bool = False
    is_staged: bool = False
    """Whether it is appended again, should a power cut take it before its commit is done."""


class Appendable(Protocol):
    """What a history does with a partition."""

    def append(self, sent: bytes, timestamp_us: int, seed: bytes) -> int:
        """Append a batch and return its first offset."""

    def sync(self) -> int:
        """Bring what was appended to the disk."""

    def close(self) -> None:
        """Sync, and let go of the files."""


@dataclass(slots=True)
class Modelled:
    """A partition and what is known of it."""

    directory: str
    fsync: Fsync
    segment_bytes: int
    partition: Appendable | None = None
    sends: list[Send] = field(default_factory=list)
    durable: int = 0
    """So many of the first sends are on the disk."""
    first_offset: int = 0
    """The first send's first offset: what was before it has been dropped."""


class FaultHistory:
    """One history; run() raises AssertionError at the first thing that is not as promised.

    Args:
        seed: What decides it.
        steps: How many steps it has.
    """

    OPTION: ClassVar = " --partitions"
    """What the command is given to run this kind alone."""

    def __init__(self, seed: int, steps: int = 120) -> None:
        self._rng = random.Random(seed)
        self._files = FaultyFiles(self._rng.getrandbits(32))
        self._steps = steps
        self._count = 0
        self._trail: list[str] = []
        self._partitions = [
            Modelled(f"log/{number}", self._rng.choice(list(Fsync)), self._rng.choice([1, 300, 1000, 5000]))
            for number in range(1, self._rng.randint(1, 3) + 1)
        ]

        self._actions: list[tuple[int, Callable[[], None]]] = [
            (60, self._append), (12, self._sync), (10, self._read), (4, self._fill_or_empty_disk), (4, self._doom),
            (3, self._break_writes), (2, self._break_reads), (2, self._break_sync), (6, self._heal), (3, self._kill),
            (4, self._cut_power), (3, self._close),
        ]  # fmt: skip

    @property
    def trail(self) -> list[str]:
        """What has happened, step by step."""
        return self._trail

    def run(self) -> None:
        """Go through the history and check it at every step that looks."""
        for modelled in self._partitions:
            self._files.make_directory(modelled.directory)
        self._open(is_after_power_cut=False)
        weights = [weight for weight, _ in self._actions]
        for _ in range(self._steps):
            action = self._rng.choices(self._actions, weights)[0][1]
            try:
                action()
            except Killed:
                self._after_death()
        self._files.revive()
        self._kill()
        self._cut_power()

    def _note(self, text: str) -> None:
        self._trail.append(text)

    def _any(self) -> Modelled:
        return self._rng.choice(self._partitions)

    # -- what a process does --------------------------------------------------------------------------------

    def _append(self) -> None:
        modelled = self._any()
        payloads = []
        for _ in range(self._rng.randint(1, 4)):
            self._count += 1
            # Few lengths, so that one send can lie exactly where another lay.
            payloads.append(b"%06d" % self._count + self._rng.randbytes(self._rng.choice([4, 4, 40, 300])))
        sent = encode_sent(Message(payload=payload) for payload in payloads)
        send = Send(payloads, is_certain=False)
        modelled.sends.append(send)
        partition = modelled.partition
        assert partition is not None
        self._note(f"append {payloads[0][:6]!r} and {len(payloads) - 1} more to {modelled.directory} ({modelled.fsync})")
        try:
            first = partition.append(sent, self._count, self._rng.randbytes(16))
        except PartitionClosedError:
            self._note("  the partition is closed")
        except StorageError as error:
            self._note(f"  refused: {error.what}")
            modelled.sends.pop()
            if isinstance(error, DiskFullError) and not self._files.is_full:
                raise AssertionError("a disk that is not full is said to be") from error
        else:
            before = modelled.first_offset + sum(len(earlier.payloads) for earlier in modelled.sends[:-1] if earlier.is_certain)
            assert first == before, f"the first offset is {first}, not {before}"
            send.is_certain = True
            if modelled.fsync is Fsync.ALWAYS:
                modelled.durable = len(modelled.sends)
            return
        if modelled.sends and modelled.sends[-1] is send and self._is_closed(modelled):
            self._reopen_all()

    def _is_closed(self, modelled: Modelled) -> bool:
        try:
            assert modelled.partition is not None
            modelled.partition.sync()
        except PartitionClosedError:
            return True
        return False

    def _sync(self) -> None:
        modelled = self._any()
        if modelled.fsync is not Fsync.NEVER:
            self._note(f"sync {modelled.directory}")
            self._finish(modelled, "sync")

    def _finish(self, modelled: Modelled, how: str) -> bool:
        """Sync or close a partition; return whether that could be done."""
        assert modelled.partition is not None
        try:
            if how == "sync":
                modelled.partition.sync()
            else:
                modelled.partition.close()
        except PartitionClosedError:
            self._note("  the partition is closed")
            if how == "sync":
                self._reopen_all()
            return False
        except StorageError as error:
            self._note(f"  refused: {error.what}")
            return False
        if modelled.fsync is not Fsync.NEVER:
            modelled.durable = len(modelled.sends)
        return True

    def _close(self) -> None:
        self._note("close everything, open it again")
        for modelled in self._partitions:
            self._finish(modelled, "close")
        self._open(is_after_power_cut=False)

    def _reopen_all(self) -> None:
        """Open again what a failed sync has closed, as a new process would."""
        self._note("open everything again")
        self._open(is_after_power_cut=False)

    def _read(self) -> None:
        modelled = self._any()
        self._note(f"read {modelled.directory}")
        try:
            found = self._messages(modelled)
        except StorageError as error:
            if not self._files.read_faults:
                raise AssertionError(f"a read failed: {error}") from error
            return
        self._compare(modelled, found, may_lose=False)

    # -- what happens to it ---------------------------------------------------------------------------------

    def _fill_or_empty_disk(self) -> None:
        if self._files.next_sync_fails:
            return
        self._files.is_full = not self._files.is_full
        self._note(f"the disk is full: {self._files.is_full}")

    def _break_writes(self) -> None:
        if self._files.next_sync_fails:
            return
        self._files.write_faults = 0.3
        self._note("writes fail now and then")

    def _break_reads(self) -> None:
        self._files.read_faults = 0.2
        self._note("reads fail now and then")

    def _break_sync(self) -> None:
        # A process that dies in the very moment, or cannot write, leaves no word of the failed sync to the next one (see
        # Partition._fail): that is not promised, and neither happens together.
        self._files.revive()
        self._files.next_sync_fails = True
        self._note("the next sync fails")

    def _heal(self) -> None:
        self._files.heal()
        self._note("faults end")

    def _doom(self) -> None:
        if not self._files.next_sync_fails:
            self._files.dies_in = self._rng.randint(1, 25)
            self._note(f"killed in {self._files.dies_in} operations")

    def _kill(self) -> None:
        self._note("killed between two steps")
        self._after_death()

    def _after_death(self) -> None:
        if self._rng.random() < 0.4:
            self._cut_power()
            return
        self._note("dead; another process opens the log")
        self._files.revive()
        if self._rng.random() < 0.3:
            self._files.dies_in = self._rng.randint(1, 25)
        self._open(is_after_power_cut=False)

    def _cut_power(self) -> None:
        self._note("the power is cut")
        self._files.cut_power()
        self._open(is_after_power_cut=True)

    # -- opening and checking -------------------------------------------------------------------------------

    def _open(self, *, is_after_power_cut: bool) -> None:
        """Open every partition, dying and failing as it comes, and check what is there then."""
        for modelled in self._partitions:
            for attempt in range(1_000_000):
                if attempt == _PATIENCE:
                    self._files.revive()
                try:
                    modelled.partition = Partition(
                        modelled.directory,
                        self._files,
                        wide=False,
                        segment_bytes=modelled.segment_bytes,
                        fsync=modelled.fsync,
                    )
                except Killed:
                    self._note("  killed while it recovered")
                    self._files.revive()
                except StorageError as error:
                    if attempt > _PATIENCE:
                        raise AssertionError(f"it does not open: {error}") from error
                    self._note(f"  does not open: {error.what}")
                else:
                    break
        doomed, self._files.dies_in = self._files.dies_in, None
        faults, self._files.read_faults = self._files.read_faults, 0.0
        for modelled in self._partitions:
            self._compare(modelled, self._messages(modelled), may_lose=is_after_power_cut, is_settled=True)
        self._files.dies_in, self._files.read_faults = doomed, faults

    def _messages(self, modelled: Modelled) -> list[Message | None]:
        """Return what is at each offset, None where readers are told that it is damaged."""
        found: list[Message | None] = []
        with PartitionFollower(modelled.directory, self._files) as follower:
            self._forget_dropped(modelled, follower.first_offset)
            first = modelled.first_offset
            while first + len(found) < follower.end_offset:
                try:
                    for chunk in follower.read(first + len(found), size_bytes=512):
                        found += decode_polled(chunk)
                except CorruptSendError as error:
                    if error.from_offset != first + len(found):
                        raise AssertionError("not all before a damaged send was delivered") from error
                    found += [None] * (error.until_offset - error.from_offset)
        return found

    def _forget_dropped(self, modelled: Modelled, first_offset: int) -> None:
        """Take the first offset that is there; nothing is dropped where nobody asked for it."""
        assert first_offset == modelled.first_offset, f"{modelled.directory} begins at {first_offset}"

    def _compare(self, modelled: Modelled, found: list[Message | None], *, may_lose: bool, is_settled: bool = False) -> None:
        """Check what is there against what was sent; with `is_settled`, take what is there for what has been sent."""
        for offset, message in enumerate(found, modelled.first_offset):
            assert message is None or message.offset == offset, "offsets are not consecutive"
            assert message is None or message.verify(), "a message is damaged"
        payloads = [None if message is None else message.payload for message in found]
        there: list[Send] = []
        at, has_ended, durable = 0, False, len(modelled.sends)
        for number, send in enumerate(modelled.sends):
            here = payloads[at : at + len(send.payloads)]
            is_owed = send.is_certain and not (may_lose and number >= modelled.durable)
            is_damaged = here == [None] * len(send.payloads) and (send.is_damaged or not is_owed)
            may_be_there = send.is_staged or not has_ended
            if may_be_there and (is_damaged or (here == send.payloads and not send.is_damaged)):
                if send.is_staged and modelled.fsync is Fsync.NEVER:
                    durable = min(durable, len(there))  # appended again just now
                there.append(Send(send.payloads, is_certain=True, is_damaged=is_damaged))
                at += len(send.payloads)
                continue
            assert not is_owed, f"{modelled.directory} ({modelled.fsync}): send {number} of {len(modelled.sends)} is lost or torn"
            has_ended = has_ended or send.is_certain  # a prefix is what may be left
        left = payloads[at : at + 1]
        assert not left, f"{modelled.directory} ({modelled.fsync}): after {len(there)} sends there is {left[0] or b''!r}"
        if is_settled:
            assert not there or not there[-1].is_damaged, "nothing whole follows a damaged send that was kept"
            modelled.sends = there
            modelled.durable = min(durable, len(there)) if may_lose else min(modelled.durable, len(there))
