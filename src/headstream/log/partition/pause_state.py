"""PauseState: the last attempts of a group and whether the group is paused; stored in a file next to the group's offsets.

DIR/streams/<stream>/<topic>/offsets/<32 hexadecimal digits of the group's hash>.pause

    magic "HSPAUSED" | version u32 | check u32 (CRC-32C of the following bytes) | until_us u64 | begun_us u64 | pause_us u64
    | pauses_count u64 | attempts_count u32 | size u32 | one bit per attempt, 1 for a failure; the newest is the last

Only load_pause() and store_pause() do I/O; times are microseconds since 1970 UTC. If the file is damaged or incomplete, the group
is treated as running, without attempts.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from headstream.core.codec.batch.stored.scan import crc32c
from headstream.core.model.pauses import MAX_PAUSE_ATTEMPTS, GroupPause, PauseRule
from headstream.core.model.polling import OffsetOwner
from headstream.log.partition.delivery_journal import owner_digest
from headstream.log.system.files import Files

_MAGIC: Final = b"HSPAUSED"
_VERSION: Final = 1
_HEAD: Final = struct.Struct("<8sII")
_BODY: Final = struct.Struct("<QQQQII")
_SUFFIX: Final = ".pause"


@dataclass(slots=True)
class PauseState:
    """The last attempts of a group and whether the group is paused.

    Args:
        until_us: End of the pause; 0 if the group runs. If the time has passed, the group is on trial.
        begun_us: Start of the pause.
        pause_us: Maximum duration of the pause, microseconds, which limits the effect of clock changes.
    """

    attempts: int = 0
    attempts_count: int = 0
    until_us: int = 0
    begun_us: int = 0
    pause_us: int = 0
    pauses_count: int = 0

    def left_us(self, now_us: int) -> int:
        """Return the remaining pause, microseconds; 0 if the group runs or is on trial."""
        return max(0, min(self.until_us - now_us, self.pause_us)) if self.until_us else 0

    def follow_clock(self, now_us: int) -> bool:
        """Restart the pause if it would last too long because the clock was set back; return whether its end changed."""
        if self.until_us <= now_us + self.pause_us:
            return False
        self.until_us = now_us + self.pause_us
        return True

    def is_on_trial(self, now_us: int) -> bool:
        """Return whether the group is on trial: the next attempt resumes the group or pauses it again."""
        return bool(self.until_us) and not self.left_us(now_us)

    def record(self, rule: PauseRule, succeeded: int, failed: int, now_us: int) -> bool:
        """Record attempts, successes before failures; return whether this pauses or resumes the group."""
        if self.left_us(now_us):  # attempts of messages that were delivered before the pause have no effect
            return False
        if self.until_us:
            if failed:
                self._pause(rule, now_us)
            elif succeeded:
                self.attempts = self.attempts_count = self.until_us = self.begun_us = self.pause_us = 0
            return bool(failed or succeeded)
        kept, mask = min(failed, rule.attempts), (1 << rule.attempts) - 1
        before = self.attempts << min(succeeded, rule.attempts)
        self.attempts = (before << kept | (1 << kept) - 1) & mask
        self.attempts_count = min(self.attempts_count + succeeded + failed, rule.attempts)
        if failed and self.attempts_count >= rule.attempts and self.attempts.bit_count() >= rule.failures:
            self._pause(rule, now_us)
            return True
        return False

    def _pause(self, rule: PauseRule, now_us: int) -> None:
        self.begun_us, self.until_us, self.pause_us = self.begun_us or now_us, now_us + rule.pause_us, rule.pause_us
        self.pauses_count += 1

    def snapshot(self) -> GroupPause:
        """Return the state as a value."""
        return GroupPause(self.until_us, self.begun_us, self.attempts.bit_count(), self.attempts_count, self.pauses_count)


def pause_name(owner: OffsetOwner) -> str:
    """Return the name of a group's file."""
    return f"{owner_digest(owner)}{_SUFFIX}"


def load_pause(directory: str, files: Files, owner: OffsetOwner) -> PauseState:
    """Return the stored state of a group; a group without a file runs."""
    file = files.open_read(f"{directory}/{pause_name(owner)}")
    if file is None:
        return PauseState()
    try:
        content = bytearray(file.size_bytes())
        got = file.read_into(memoryview(content), 0)
    finally:
        file.close()
    return _decode(bytes(content[:got]))


def store_pause(directory: str, files: Files, owner: OffsetOwner, state: PauseState) -> None:
    """Replace the file of a group."""
    bits = state.attempts.to_bytes((state.attempts.bit_length() + 7) // 8, "little")
    numbers = state.until_us, state.begun_us, state.pause_us, state.pauses_count, state.attempts_count, len(bits)
    body = _BODY.pack(*numbers) + bits
    path = f"{directory}/{pause_name(owner)}"
    files.replace(path, _HEAD.pack(_MAGIC, _VERSION, crc32c(body, 0)) + body, durably=False)


def _decode(content: bytes) -> PauseState:
    body = content[_HEAD.size :]
    if len(body) < _BODY.size:
        return PauseState()
    magic, version, check = _HEAD.unpack_from(content)
    if (magic, version, check) != (_MAGIC, _VERSION, crc32c(body, 0)):
        return PauseState()
    until_us, begun_us, pause_us, pauses_count, attempts_count, size = _BODY.unpack_from(body)
    attempts = int.from_bytes(body[_BODY.size : _BODY.size + size], "little")
    return PauseState(attempts, min(attempts_count, MAX_PAUSE_ATTEMPTS), until_us, begun_us, pause_us, pauses_count)
