"""Generated histories of a log's partitions over faulty files, checked against a model.

A history is a sequence of steps chosen by a seed: appends of random batches to a few partitions of any fsync policy with small
segments, syncs, reads, full disks, failed writes, reads and syncs, kills at any operation (also during recovery), power
failures, closing and reopening. The model records every send and its outcome:

    acknowledged      present, intact, in order, once, after any number of kills
    refused           absent
    unknown           the sender was killed, or a sync failed: present and intact, or absent
    after a power failure, synced sends are present (`always`: all acknowledged ones); of the others the last ones may be
    missing, and one that later ones follow may be damaged, which reads report
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.message import Message
from headstream.core.model.topology import Fsync
from headstream.errors import CorruptSendError, DiskFullError, PartitionClosedError, StorageError
from headstream.log.partition.partition import PartitionWriter
from headstream.log.segments.follower import PartitionFollower
from tests.campaigns.faulty_files import FaultyFiles, Killed

_MAX_ATTEMPTS: Final = 50
"""Failed attempts to open under faults before the faults end."""


@dataclass(slots=True)
class Send:
    """A send and its outcome."""

    payloads: list[bytes]
    is_certain: bool
    is_damaged: bool = False
    is_staged: bool = False
    """Whether it is appended again if a power failure removes it before its commit is done."""


class Appendable(Protocol):
    """The operations of a history on a partition."""

    def append(self, sent: bytes, timestamp_us: int, seed: bytes) -> int:
        """Append a batch and return its first offset."""

    def sync(self) -> int:
        """Sync appended messages to the disk."""

    def close(self) -> None:
        """Sync and close the files."""


@dataclass(slots=True)
class PartitionModel:
    """A partition and its expected content."""

    directory: str
    fsync: Fsync
    segment_bytes: int
    partition: Appendable | None = None
    sends: list[Send] = field(default_factory=list)
    durable: int = 0
    """Number of first sends that are synced to the disk."""
    first_offset: int = 0
    """The first send's offset: earlier ones have been dropped."""


class FaultHistory:
    """One history; run() raises AssertionError at the first broken guarantee.

    Args:
        seed: Determines the history.
        steps: Number of steps.
    """

    def __init__(self, seed: int, steps: int = 120) -> None:
        self._rng = random.Random(seed)
        self._files = FaultyFiles(self._rng.getrandbits(32))
        self._steps = steps
        self._count = 0
        self._trail: list[str] = []
        self._partitions = [
            PartitionModel(f"log/{number}", self._rng.choice(list(Fsync)), self._rng.choice([1, 300, 1000, 5000]))
            for number in range(1, self._rng.randint(1, 3) + 1)
        ]

        self._actions: list[tuple[int, Callable[[], None]]] = [
            (60, self._append), (12, self._sync), (10, self._read), (4, self._fill_or_empty_disk), (4, self._schedule_kill),
            (3, self._break_writes), (2, self._break_reads), (2, self._break_sync), (6, self._end_faults), (3, self._kill),
            (4, self._cut_power), (3, self._close),
        ]  # fmt: skip

    @property
    def trail(self) -> list[str]:
        """The steps so far, as text."""
        return self._trail

    def run(self) -> None:
        """Run the history, with checks after every step that reads."""
        for modelled in self._partitions:
            self._files.make_directory(modelled.directory)
        self._open(is_after_power_cut=False)
        weights = [weight for weight, _ in self._actions]
        for _ in range(self._steps):
            action = self._rng.choices(self._actions, weights)[0][1]
            try:
                action()
            except Killed:
                self._restart()
        self._files.revive()
        self._kill()
        self._cut_power()

    def _note(self, text: str) -> None:
        self._trail.append(text)

    def _any(self) -> PartitionModel:
        return self._rng.choice(self._partitions)

    # -- a process's steps ----------------------------------------------------------------------------------

    def _append(self) -> None:
        modelled = self._any()
        payloads = []
        for _ in range(self._rng.randint(1, 4)):
            self._count += 1
            # Few lengths, so that a send can occupy the exact bytes of an earlier one.
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
                raise AssertionError("a disk with free space is reported full") from error
        else:
            before = modelled.first_offset + sum(len(earlier.payloads) for earlier in modelled.sends[:-1] if earlier.is_certain)
            assert first == before, f"the first offset is {first}, not {before}"
            send.is_certain = True
            if modelled.fsync is Fsync.ALWAYS:
                modelled.durable = len(modelled.sends)
            return
        if modelled.sends and modelled.sends[-1] is send and self._is_closed(modelled):
            self._reopen_all()

    def _is_closed(self, modelled: PartitionModel) -> bool:
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

    def _finish(self, modelled: PartitionModel, how: str) -> bool:
        """Sync or close a partition; return whether it succeeded."""
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
        """Reopen partitions that a failed sync has closed, as a new process would."""
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

    # -- faults ---------------------------------------------------------------------------------------------

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
        # A process that is killed at that moment, or cannot write, leaves no record of the failed sync to the next one (see
        # PartitionWriter._fail): that is not guaranteed, so the two are not combined.
        self._files.revive()
        self._files.next_sync_fails = True
        self._note("the next sync fails")

    def _end_faults(self) -> None:
        self._files.end_faults()
        self._note("faults end")

    def _schedule_kill(self) -> None:
        if not self._files.next_sync_fails:
            self._files.killed_in = self._rng.randint(1, 25)
            self._note(f"killed in {self._files.killed_in} operations")

    def _kill(self) -> None:
        self._note("killed between two steps")
        self._restart()

    def _restart(self) -> None:
        if self._rng.random() < 0.4:
            self._cut_power()
            return
        self._note("dead; another process opens the log")
        self._files.revive()
        if self._rng.random() < 0.3:
            self._files.killed_in = self._rng.randint(1, 25)
        self._open(is_after_power_cut=False)

    def _cut_power(self) -> None:
        self._note("the power is cut")
        self._files.cut_power()
        self._open(is_after_power_cut=True)

    # -- opening and checking -------------------------------------------------------------------------------

    def _open(self, *, is_after_power_cut: bool) -> None:
        """Open every partition, with kills and failures as scheduled, then check its content."""
        for modelled in self._partitions:
            for attempt in range(1_000_000):
                if attempt == _MAX_ATTEMPTS:
                    self._files.revive()
                try:
                    modelled.partition = PartitionWriter(
                        modelled.directory, self._files, wide=False, segment_bytes=modelled.segment_bytes, fsync=modelled.fsync
                    )
                except Killed:
                    self._note("  killed while it recovered")
                    self._files.revive()
                except StorageError as error:
                    if attempt > _MAX_ATTEMPTS:
                        raise AssertionError(f"opening fails: {error}") from error
                    self._note(f"  does not open: {error.what}")
                else:
                    break
        scheduled, self._files.killed_in = self._files.killed_in, None
        faults, self._files.read_faults = self._files.read_faults, 0.0
        for modelled in self._partitions:
            self._compare(modelled, self._messages(modelled), may_lose=is_after_power_cut, is_settled=True)
        self._files.killed_in, self._files.read_faults = scheduled, faults

    def _messages(self, modelled: PartitionModel) -> list[Message | None]:
        """Return the message at each offset, None if a read reports it as damaged."""
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
                        raise AssertionError("not all messages before a damaged send were returned") from error
                    found += [None] * (error.until_offset - error.from_offset)
        return found

    def _forget_dropped(self, modelled: PartitionModel, first_offset: int) -> None:
        """Check the first offset: nothing is dropped unless a step requested it."""
        assert first_offset == modelled.first_offset, f"{modelled.directory} begins at {first_offset}"

    def _compare(
        self, modelled: PartitionModel, found: list[Message | None], *, may_lose: bool, is_settled: bool = False
    ) -> None:
        """Compare the content with the sends; with `is_settled`, adopt the content as the new expectation."""
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
                    durable = min(durable, len(there))  # appended again during recovery
                there.append(Send(send.payloads, is_certain=True, is_damaged=is_damaged))
                at += len(send.payloads)
                continue
            assert not is_owed, f"{modelled.directory} ({modelled.fsync}): send {number} of {len(modelled.sends)} is lost or torn"
            has_ended = has_ended or send.is_certain  # only a prefix can remain
        left = payloads[at : at + 1]
        assert not left, f"{modelled.directory} ({modelled.fsync}): after {len(there)} sends follows {left[0] or b''!r}"
        if is_settled:
            assert not there or not there[-1].is_damaged, "no intact send follows a retained damaged one"
            modelled.sends = there
            modelled.durable = min(durable, len(there)) if may_lose else min(modelled.durable, len(there))
