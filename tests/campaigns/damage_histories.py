"""Generated histories of damage: a compacted partition with truncated, altered and lost files, checked against a model.

A history is a sequence of steps chosen by a seed: appends of keyed batches, new segments, compaction passes, kills of those
at any operation, opening by a writer, repair, verification, reads from the beginning and by a consumer that continues;
damage to any file of up to three segments, and restoring the damaged files from a copy. The guarantees checked:

    no silent loss     a reader gets each key's last message, or an error whose range of offsets contains it
    no wrong data      read messages are those sent, in ascending order; no removed key reappears
    no false alarm     without damage, reads raise no error and verification has no findings
    verification       finds damage whenever reads raise errors
    compaction         changes no damaged segment: once restored, its messages are readable again
    repair             rebuilds what the messages determine: an index that was truncated, altered or deleted
"""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from headstream.core.codec.binary import encode_sent
from headstream.core.model.message import Message
from headstream.errors import CorruptLogError
from headstream.log.checks.partition_verification import verify_partition
from headstream.log.checks.repair import repair_partition
from headstream.log.partition.closed_segments import finish_pass
from headstream.log.partition.partition import PartitionWriter
from headstream.log.partition.segment_removal import open_index
from headstream.log.segments.files import BufferPool
from headstream.log.segments.layout import INDEX_SUFFIX, LOG_SUFFIX, base_offsets, log_offsets, log_suffix, segment_path
from headstream.log.upkeep.compaction_pass import CompactionPass
from tests.campaigns.damage_reading import Content, ReadResult, read_past_damage
from tests.campaigns.faulty_files import FaultyFiles, Killed
from tests.campaigns.segment_damage import KINDS, LOST, damage_segment

_PLACE: Final = "log/1"
_SEED: Final = bytes(16)
_MOST_DAMAGED: Final = 3


@dataclass(slots=True)
class _Damage:
    """Damage to a segment, with its original files."""

    base: int
    what: str
    before: dict[str, bytes]
    is_provable: bool
    """Whether the messages are intact, so that repair can rebuild the index."""


class DamageHistory:
    """One history; run() raises AssertionError at the first broken guarantee.

    Args:
        seed: Determines the history.
        steps: Number of steps.
    """

    def __init__(self, seed: int, steps: int = 120) -> None:
        self._rng = random.Random(seed)
        self._files = FaultyFiles(self._rng.getrandbits(32))
        self._steps = steps
        self._segment_bytes = self._rng.choice([300, 1000, 4000])
        self._keys = self._rng.choice([3, 10, 60])
        self._sent: dict[int, Content] = {}
        self._end = 0
        self._lost: list[tuple[int, int]] = []
        """Ranges that repair has abandoned, with the newest segment's files missing."""
        self._damages: list[_Damage] = []
        self._position = 0
        self._count = 0
        self._null_before_us = 0
        self._partition: PartitionWriter | None = None
        self.trail: list[str] = []
        """The steps so far, as text."""

    def run(self) -> None:
        """Run the history, with checks after every step that reads."""
        self._files.make_directory(_PLACE)
        self._open()
        actions: list[tuple[int, Callable[[], None]]] = [
            (40, self._append), (12, self._roll), (12, self._compact), (5, self._open), (10, self._damage),
            (4, self._put_back), (6, self._repair), (6, self._verify), (10, self._read_all), (8, self._read_on),
            (2, self._lose_newest), (2, self._leave_strays),
        ]  # fmt: skip
        weights = [weight for weight, _ in actions]
        for _ in range(self._steps):
            self._rng.choices(actions, weights)[0][1]()
        self._repair()
        self._read_all()
        while self._damages:
            self._put_back()
        self._open()
        self._compact()
        self._read_all()
        self._verify()

    def _note(self, text: str) -> None:
        self.trail.append(text)

    # -- the writer's steps ---------------------------------------------------------------------------------

    def _append(self) -> None:
        partition = self._partition
        if partition is None:
            return
        self._count += 1
        batch = [
            Content(
                b"%d" % self._rng.randint(1, self._keys),
                None if self._rng.random() < 0.2 else b"%d " % self._count + self._rng.randbytes(self._rng.choice([2, 20, 90])),
            )
            for _ in range(self._rng.randint(1, 5))
        ]
        messages = [Message(payload=each.payload, key=each.key) for each in batch]
        first = partition.append(encode_sent(messages), self._count, self._rng.randbytes(16))
        assert first == self._end, f"the first offset is {first}, not {self._end}"
        self._sent |= dict(enumerate(batch, first))
        self._end = first + len(batch)

    def _roll(self) -> None:
        if self._partition is not None:
            self._note(f"a new segment begins at {self._end}")
            self._partition.roll()

    def _open(self) -> None:
        """Open the partition as another process would, if it can be opened."""
        self._note("another process opens the log")
        if self._partition is not None:
            with suppress(CorruptLogError):
                self._partition.close()
        self._partition = None
        is_lost = any(damage.what == "newest lost" for damage in self._damages)
        try:
            finish_pass(_PLACE, self._files)
            self._partition = PartitionWriter(_PLACE, self._files, wide=True, segment_bytes=self._segment_bytes)
        except CorruptLogError as error:
            self._note(f"  {error.what}")
            if not is_lost:
                raise AssertionError(f"it does not open: {error}") from error
        else:
            assert not is_lost, "it opens, and gives offsets again that were lost with the newest segment"
            assert self._partition.end_offset == self._end, f"it ends at {self._partition.end_offset}, not {self._end}"

    def _compact(self) -> None:
        """Run a compaction pass, possibly killed; it skips segments that it cannot verify."""
        if self._partition is None:
            return
        before = {damage.base: self._content(damage.base) for damage in self._damages}
        self._partition.roll()
        if self._rng.random() < 0.5:
            self._null_before_us = max(self._null_before_us, self._count - self._rng.choice([0, 5, 30]))
        is_killed = self._rng.random() < 0.3
        if is_killed:
            self._files.killed_in = self._rng.randint(1, 120)
        self._note(f"a pass{' that may be killed' if is_killed else ''}, null payloads before {self._null_before_us} go")
        try:
            CompactionPass(
                _PLACE, self._files, segment_bytes=self._rng.choice([self._segment_bytes, 4000]),
                null_before_us=self._null_before_us, seed=_SEED,
            ).run()  # fmt: skip
        except Killed:
            self._note("  killed")
            self._files.revive()
            self._partition = None
        except CorruptLogError as error:
            self._note(f"  {error.what}")
            if not (self._damages or self._lost):
                raise AssertionError(f"a pass finds damage where there is none: {error}") from error
        self._files.revive()
        self._drop_rewritten(before)
        if self._partition is None:
            self._open()

    def _drop_rewritten(self, before: dict[int, dict[str, bytes]]) -> None:
        """Forget damage that a pass has rewritten: the segment no longer needs the copy."""
        after = {damage.base: self._content(damage.base) for damage in self._damages}
        rewritten = [
            damage
            for damage in self._damages
            if any(after[damage.base].get(path) != data for path, data in before[damage.base].items())
        ]  # a killed pass may have left more files beside these
        for damage in rewritten:
            self._note(f"  {damage.base} ({damage.what}) was rewritten")
            self._damages.remove(damage)

    # -- damage ---------------------------------------------------------------------------------------------

    def _content(self, base: int) -> dict[str, bytes]:
        """Return a segment's files."""
        names = [name for name in self._names() if name.startswith(f"{base:020d}") and ".set-aside-" not in name]
        return {f"{_PLACE}/{name}": self._read_file(f"{_PLACE}/{name}") for name in names}

    def _names(self) -> list[str]:
        return sorted(self._files.list_names(_PLACE) or [])

    def _read_file(self, path: str) -> bytes:
        file = self._files.open_read(path)
        assert file is not None
        data = memoryview(bytearray(file.size_bytes()))
        return bytes(data[: file.read_into(data, 0)])

    def _write_file(self, path: str, data: bytes | None) -> None:
        if data is None:
            self._files.remove(path)
            return
        file = self._files.open_write(path)
        file.truncate(0)
        file.write_at(data, 0)

    def _damage(self) -> None:
        """Damage one intact closed segment, but none next to a lost one: that would be two faults at one place."""
        bases = base_offsets(self._names())
        closed = [base for base in bases[:-1] if all(damage.base != base for damage in self._damages)]
        if not closed or len(self._damages) >= _MOST_DAMAGED:
            return
        base = self._rng.choice(closed)
        files = self._content(base)
        logs = [generation for other, generation in log_offsets(self._names()) if other == base]
        index, data = segment_path(_PLACE, base, INDEX_SUFFIX), segment_path(_PLACE, base, log_suffix(logs[-1]))
        if len(logs) != 1 or len(files) != 2:
            return  # a killed pass has left files: opening the log decides which one is valid
        place = bases.index(base)
        is_beside_lost = any("lost" in damage.what for damage in self._damages)
        kinds = list(KINDS)
        if place and not self._damages and self._is_sealed(bases[place - 1]):
            kinds += [LOST, LOST]
        if is_beside_lost:
            kinds = [kind for kind in KINDS if kind in ("log flipped", "log cut")]
        what = self._rng.choice(kinds)
        changed = damage_segment(what, index, data, files, self._rng)
        for path, content in changed.items():
            self._write_file(path, content)
        if changed:
            self._note(f"segment {base}: {what}")
            self._damages.append(_Damage(base, what, files, is_provable=what.startswith("index")))
            if self._partition is not None:
                self._partition.close()

    def _lose_newest(self) -> None:
        """Lose both files of the newest segment, which no other index refers to."""
        bases = base_offsets(self._names())
        if self._partition is None or self._damages or len(bases) < 2 or bases[-1] == self._end:
            return
        if not self._is_sealed(bases[-2]):
            return
        self._partition.close()
        self._partition = None
        files = self._content(bases[-1])
        self._note(f"the newest segment {bases[-1]} is lost")
        for path in files:
            self._files.remove(path)
        self._damages.append(_Damage(bases[-1], "newest lost", files, is_provable=False))
        self._open()

    def _leave_strays(self) -> None:
        """Create files named like segments at offsets where there cannot be one."""
        if self._partition is None:
            return
        self._partition.close()
        self._partition = None
        for name in ("09223372036854775808.log", "99999999999999999999.index"):
            self._files.open_write(f"{_PLACE}/{name}")
        if not self._damages and self._sent:
            self._files.open_write(segment_path(_PLACE, self._end + self._rng.randint(1, 9), LOG_SUFFIX))
        self._note("strays")
        self._open()
        repair_partition(_PLACE, self._files, self._position)

    def _is_sealed(self, base: int) -> bool:
        """Return whether an index records where the next segment begins: a rebuilt one of a compacted segment does not."""
        index = open_index(_PLACE, base, self._files)
        assert index is not None
        return index.seal is not None

    def _put_back(self) -> None:
        """Restore a damaged segment's files from the copy."""
        if not self._damages:
            return
        damage = self._damages.pop(self._rng.randrange(len(self._damages)))
        self._note(f"segment {damage.base} ({damage.what}) is put back")
        for path in self._content(damage.base):
            if path not in damage.before:
                self._files.remove(path)
        for path, data in damage.before.items():
            self._write_file(path, data)
        self._open()

    def _repair(self) -> None:
        """Repair the partition; whatever the messages determine must be intact afterwards."""
        if self._partition is not None:
            self._partition.close()
            self._partition = None
        for action in repair_partition(_PLACE, self._files, self._position):
            self._note(f"repair: {action.path.rpartition('/')[2]}: {action.what}")
        for damage in [damage for damage in self._damages if damage.what == "newest lost"]:
            base = base_offsets(self._names())[-1]
            self._damages.remove(damage)
            assert base >= self._position, "an offset is given again that a consumer has committed"
            self._lost.append((damage.base, base))
            self._sent = {offset: sent for offset, sent in self._sent.items() if offset < damage.base}
            self._end = base
        self._damages = [damage for damage in self._damages if not damage.is_provable]
        self._open()
        if not self._damages:
            self._read_all()

    # -- checking -------------------------------------------------------------------------------------------

    def _verify(self) -> None:
        found = [finding.what for finding in verify_partition(_PLACE, self._files, BufferPool()) if finding.is_damage]
        self._note(f"verify: {len(found)} findings")
        if not self._damages and not self._lost:
            assert not found, f"verification finds damage where there is none: {found}"
        assert found or not self._read(0).unreadable, "reads raise errors about damage, but verification finds none"
        if any(damage.what == "newest lost" for damage in self._damages):
            assert found, "verification does not see that the newest segment is lost"

    def _read_all(self) -> None:
        self._note("read all")
        read = self._read(0)
        self._check(read, 0)
        newest = {sent.key: offset for offset, sent in self._sent.items()}
        for offset, sent in read.messages.items():
            last = newest[sent.key]
            if last > offset and last not in read.messages and not read.is_unreadable(last) and not self._is_given_up(last):
                raise AssertionError(f"key {sent.key!r} is back at offset {offset}, its newest message was at {last}")

    def _read_on(self) -> None:
        """Read as a consumer that continues from its committed offset."""
        read = self._read(self._position)
        self._note(f"a consumer reads on from {self._position}")
        end = max([self._position, *(offset + 1 for offset in read.messages), *(end for _, end in read.unreadable)])
        self._check(read, self._position, end)
        self._position = end

    def _read(self, from_offset: int) -> ReadResult:
        reading = read_past_damage(self._files, _PLACE, from_offset, self._rng)
        if not self._damages and not self._lost:
            assert not reading.unreadable, f"reads raise errors where there is no damage: {reading.unreadable}"
        return reading

    def _check(self, read: ReadResult, begin: int, end: int | None = None) -> None:
        """Compare the read messages with those sent."""
        for offset, sent in read.messages.items():
            assert self._sent.get(offset) == sent, f"offset {offset} is {sent}, not {self._sent.get(offset)}"
        newest = {sent.key: offset for offset, sent in self._sent.items()}
        for offset in newest.values():
            if not begin <= offset < (self._end if end is None else end) or self._is_given_up(offset):
                continue
            is_gone = self._sent[offset].payload is None and offset not in read.messages
            if is_gone or offset in read.messages or read.is_unreadable(offset):
                continue
            raise AssertionError(f"offset {offset} ({self._sent[offset]}) is lost without an error: {read.unreadable}")

    def _is_given_up(self, offset: int) -> bool:
        """Return whether a message was lost with the newest segment, which opening and verification report until repair."""
        if any(damage.what == "newest lost" and offset >= damage.base for damage in self._damages):
            return True
        return any(begin <= offset < end for begin, end in self._lost)
