"""Generated histories of marks, restores, removals, holds and erasures over faulty files, compared with a model.

    send       acknowledged messages are never lost unless they were marked; one whose sender was killed can be there, and be lost
               by a power failure as long as no later send or mark was synced
    mark       changes nothing but the state; interrupted, it is done or not begun for each message
    restore    of a message that is there; a message that is gone stays gone
    round      removes marks whose grace is over, and no younger ones
    remove     removes the marks of one reason, and no others; once it has succeeded, no file has a byte of their payloads
    hold       while it lasts, nothing is removed

The process is killed, the power fails and writes are refused at any operation. All sends are synced, so what a reopened log
has is determined up to what was interrupted. The catalog is a real database; see log_histories.py.
"""

from __future__ import annotations

import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from headstream.core.codec.binary import decode_polled, encode_sent
from headstream.core.model.identifiers import TopicName
from headstream.core.model.message import Message, MessageState, StateChange
from headstream.core.model.topology import Fsync, Limits, NewTopic, TopicOptions
from headstream.errors import LegalHoldError, OffsetOutOfRangeError, StorageError
from headstream.log.administration import create_topic, update_topic
from headstream.log.catalog.records import TopicRecord
from headstream.log.segments.follower import PartitionFollower
from headstream.log.upkeep.marked_removal import MarkedRemoval, due_before_us
from tests.campaigns.faulty_files import FaultyFiles, Killed
from tests.campaigns.log_histories import KillableLog

__all__ = ["RemovalHistory"]

_MEMORY: Final = "/dev/shm"
_MARKED: Final = MessageState.MARKED_FOR_DELETION.value
_AVAILABLE: Final = MessageState.AVAILABLE.value
_REASONS: Final = ("erase", "other")
_GRACE_US: Final = 64
_MAX_ATTEMPTS: Final = 50


@dataclass(slots=True)
class _Known:
    """A message and what can be true of it: several possibilities after an interruption.

    Args:
        payload: Its payload, which no other message contains.
        is_live: Whether it can be available.
        marks: Reason and time of the marks that it can have.
        is_gone: Whether it can be removed.
    """

    payload: bytes
    is_live: bool = True
    marks: set[tuple[str, int]] = field(default_factory=set)
    is_gone: bool = False

    @property
    def is_certain(self) -> bool:
        """Whether there is one possibility."""
        return self.is_live + len(self.marks) + self.is_gone == 1


class RemovalHistory:
    """One history.

    Args:
        seed: Determines the history.
        steps: Number of steps.
    """

    def __init__(self, seed: int, steps: int = 120) -> None:
        self._rng = random.Random(seed)
        self._files = FaultyFiles(seed)
        self._steps = steps
        self._segment_bytes = self._rng.choice([300, 1000, 5000])
        self._now_us = 1000
        self._count = 0
        self._known: dict[int, _Known] = {}
        self._unsure: list[bytes] = []
        self._unsynced: set[int] = set()
        self.trail: list[str] = []

    def run(self) -> None:
        """Run the history, with a check after every interruption."""
        with tempfile.TemporaryDirectory(dir=_MEMORY if Path(_MEMORY).is_dir() else None) as root:
            self._log = KillableLog(root, self._files, self._segment_bytes)
            try:
                self._log.start_writing("identity", 1, briefly=True)
                options = TopicOptions(deletion_grace_us=_GRACE_US)
                create_topic(self._log, NewTopic(TopicName("shop", "orders"), 1, Limits.IGGY, Fsync.ALWAYS, options), 1)
                for _ in range(self._steps):
                    self._step()
                self._files.revive()
                self._reopen()
                self._hold(on=False)
                for reason in _REASONS:
                    self._remove(reason)
                self._check_bytes()
            finally:
                self._log.crash()

    def _step(self) -> None:
        self._now_us += self._rng.randint(1, 16)
        actions = (
            *((12, self._send), (8, self._mark), (4, self._restore), (4, self._round)),
            *((3, lambda: self._remove("erase")), (1, lambda: self._hold(on=self._rng.random() < 0.3))),
        )
        action = self._rng.choices([each for _, each in actions], [weight for weight, _ in actions])[0]
        fault = self._rng.random()
        if fault < 0.25:
            self._files.killed_in = self._rng.randint(1, 120)
        elif fault < 0.3:
            self._files.write_faults = 0.2
        try:
            action()
        except Killed:
            is_cut = self._rng.random() < 0.5
            self._note("  power failure" if is_cut else "  killed")
            (self._files.cut_power if is_cut else self._files.revive)()
            self._reopen()
        except StorageError as error:
            self._note(f"  refused: {error.what}")
            self._files.revive()
            self._reopen()
        self._files.revive()

    def _note(self, what: str) -> None:
        self.trail.append(what)

    @property
    def _topic(self) -> TopicRecord:
        return self._log.snapshot()["shop"].topics["orders"]

    # -- steps --------------------------------------------------------------------------------------------------

    def _send(self) -> None:
        payloads = []
        for _ in range(self._rng.randint(1, 4)):
            self._count += 1
            payloads.append(b"<%06d>" % self._count + b"." * self._rng.randint(0, 60))
        self._unsure = payloads
        self._note(f"send {self._count - len(payloads) + 1} to {self._count}")
        sent = encode_sent([Message(payload=payload) for payload in payloads])
        first = self._log.append(self._topic, 1, sent, self._now_us, bytes(16)).offset
        self._unsure = []
        self._unsynced.clear()
        self._known |= {first + number: _Known(payload) for number, payload in enumerate(payloads)}

    def _choose(self) -> list[int]:
        there = [offset for offset, known in self._known.items() if known.is_certain and not known.is_gone]
        begin = self._rng.randint(0, max(0, len(there) - 1))
        return [offset for offset in there[begin : begin + 12] if self._rng.random() < 0.5]

    def _mark(self) -> None:
        offsets, reason = self._choose(), self._rng.choice(_REASONS)
        if offsets:
            self._note(f"mark {offsets} at {self._now_us}: {reason}")
            for offset in offsets:
                self._known[offset].marks.add((reason, self._now_us))
            self._set(offsets, StateChange(-1, _MARKED, reason, "", self._now_us))
            for offset in offsets:
                self._known[offset] = _Known(self._known[offset].payload, is_live=False, marks={(reason, self._now_us)})

    def _restore(self) -> None:
        gone = [offset for offset, known in self._known.items() if known.is_certain and known.is_gone]
        if gone:
            try:
                self._set([self._rng.choice(gone)], StateChange(-1, _AVAILABLE, "", "", self._now_us))
            except OffsetOutOfRangeError:
                pass
            else:
                raise AssertionError("a removed message was restored")
        offsets = [offset for offset in self._choose() if self._known[offset].marks]
        if offsets:
            self._note(f"restore {offsets}")
            for offset in offsets:
                self._known[offset].is_live = True
            self._set(offsets, StateChange(-1, _AVAILABLE, "", "", self._now_us))
            for offset in offsets:
                self._known[offset] = _Known(self._known[offset].payload)

    def _set(self, offsets: list[int], change: StateChange) -> None:
        self._log.partition(self._topic, 1).sync()
        self._unsynced.clear()
        self._log.states.set(self._topic, 1, offsets, change)

    def _hold(self, *, on: bool) -> None:
        self._note(f"hold {on}")
        update_topic(self._log, self._topic, options=TopicOptions(deletion_grace_us=_GRACE_US, legal_hold=on))

    def _round(self) -> None:
        before_us = due_before_us(_GRACE_US, self._now_us)
        self._note(f"round at {self._now_us}, of marks before {before_us}")
        marks = {mark for known in self._known.values() for mark in known.marks if mark[1] < before_us}
        # A round waits until the oldest mark's grace is nearly over: then it takes all that are due. A message that an earlier
        # round can have removed, although a write failed, is no reason.
        there = (known for known in self._known.values() if known.is_certain)
        oldest_us = min((time_us for known in there for _, time_us in known.marks), default=self._now_us)
        due = [] if self._topic.options.legal_hold else self._expect(marks)
        MarkedRemoval(self._log, lambda: self._now_us).apply()
        if oldest_us + _GRACE_US - _GRACE_US // 16 <= self._now_us and not self._files.write_faults:
            self._settle_gone(due)

    def _remove(self, reason: str) -> None:
        self._note(f"remove what is marked with {reason}")
        due = self._expect({mark for known in self._known.values() for mark in known.marks if mark[0] == reason})
        try:
            removal = MarkedRemoval(self._log, lambda: self._now_us).remove_now(self._topic, 1, reason)
        except LegalHoldError:
            assert self._topic.options.legal_hold
            for offset in due:
                self._known[offset].is_gone = False
            return
        assert not self._topic.options.legal_hold
        assert removal.left_count == 0
        self._settle_gone(due)

    def _expect(self, marks: set[tuple[str, int]]) -> list[int]:
        """Note that messages with some marks can be removed from now on, and return those that have to be after a success."""
        certain = []
        for offset, known in self._known.items():
            if known.marks & marks:
                if known.is_certain:
                    certain.append(offset)
                known.is_gone = True
        return certain

    def _settle_gone(self, offsets: list[int]) -> None:
        for offset in offsets:
            self._known[offset] = _Known(self._known[offset].payload, is_live=False, is_gone=True)
        self._check()

    # -- checks -------------------------------------------------------------------------------------------------

    def _reopen(self) -> None:
        for attempt in range(_MAX_ATTEMPTS):
            self._log.crash()
            self._log = KillableLog(self._log.root, self._files, self._segment_bytes)
            if attempt < _MAX_ATTEMPTS // 2 and self._rng.random() < 0.1:
                self._files.killed_in = self._rng.randint(1, 60)
            try:
                self._log.start_writing("identity", 1, briefly=True)
                self._log.partition(self._topic, 1)
            except Killed:
                self._note("  killed while it opened")
                self._files.revive()
            else:
                break
        self._files.revive()
        self._check()

    def _check(self) -> None:
        """Compare the log with the model, and the model with the log where that was unsure."""
        recorded = {each.offset: (each.reason, each.changed_us) for each in self._log.states.changes(self._topic, 1)}
        found = self._read()
        for offset, message in found.items():
            if offset not in self._known:
                assert message.payload in self._unsure, f"{message.payload!r} at {offset} was never sent"
                self._known[offset] = _Known(message.payload or b"")
                self._unsynced.add(offset)
        self._unsure = []
        for offset in self._unsynced - found.keys():
            del self._known[offset]  # another message can get its offset
        self._unsynced &= found.keys()
        for offset, known in self._known.items():
            there = found.get(offset)
            if there is None:
                assert known.is_gone, f"{offset} is lost: {known}"
                self._known[offset] = _Known(known.payload, is_live=False, is_gone=True)
                continue
            assert there.payload == known.payload, f"{offset} has other bytes"
            assert known.is_live or known.marks, f"{offset} has come back"
            if there.state == MessageState.AVAILABLE:
                assert known.is_live, f"{offset} is delivered again: {known}"
                self._known[offset] = _Known(known.payload)
            else:
                assert recorded.get(offset) in known.marks, f"{offset} is marked as {recorded.get(offset)}, not {known}"
                self._known[offset] = _Known(known.payload, is_live=False, marks={recorded[offset]})

    def _read(self) -> dict[int, Message]:
        with PartitionFollower(self._log.partition_directory(self._topic, 1), self._files) as follower:
            chunks = list(follower.read(follower.first_offset))
            return {message.offset: message for chunk in chunks for message in decode_polled(bytes(chunk))}

    def _check_bytes(self) -> None:
        for offset, known in self._known.items():
            if known.is_gone:
                places = self._files.find(known.payload[:8])
                assert not places, f"{offset} is removed, and its bytes are in {places}"
