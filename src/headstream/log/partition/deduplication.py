"""Deduplication: drops a message if one of the newest messages of its partition has the same id.

    send -> checked -> repeats dropped -> stamped -> written -> new ids recorded

The recorded ids are the ids (generated or sent) of the newest messages on the disk. The next writer process reads these messages
at its first append, so no other file is needed. The number of bytes read is limited.
"""

from __future__ import annotations

from typing import Final

from headstream.core.codec.batch.stored.repeats import drop_repeats, new_id_window, note_ids
from headstream.core.codec.buffer import BytesLike
from headstream.log.segments.files import ReadFiles
from headstream.log.segments.follower import PartitionFollower

REREAD_BYTES: Final = 1 << 30
"""Approximate size of the newest messages, in whole segments, that the first append reads, bytes; takes a second if cached."""


class RecentIds:
    """The ids of a partition's newest messages.

    Args:
        count: Number of recorded ids.
        seed: 8 random bytes or more.

    Raises:
        CorruptLogError: the newest messages cannot be read.
    """

    def __init__(self, directory: str, files: ReadFiles, count: int, seed: bytes) -> None:
        self.count = count
        self._window = new_id_window(count, seed)
        with PartitionFollower(directory, files) as follower:
            start = max(follower.find_last(count), follower.offset_before(REREAD_BYTES))
            for chunk in follower.read(start):
                note_ids(chunk, self._window)

    def drop_repeats(self, sent: BytesLike) -> bytearray | None:
        """Return a sent batch without its repeated messages, or None if all messages are new; records no id."""
        return drop_repeats(sent, self._window)

    def note(self, stored: BytesLike) -> None:
        """Record the ids of written messages; replaces the oldest ids."""
        note_ids(stored, self._window)


class Repeats:
    """Drops repeated messages from the batches sent to a partition, if its topic has deduplication."""

    def __init__(self, directory: str, files: ReadFiles) -> None:
        self._directory = directory
        self._files = files
        self._recent: RecentIds | None = None

    def drop(self, sent: BytesLike, count: int | None, seed: bytes) -> BytesLike:
        """Return a sent batch without the repeated messages.

        Args:
            count: Number of recorded ids, from the topic's current option; None disables deduplication.
            seed: 8 random bytes or more.

        Raises:
            CorruptLogError: the newest messages cannot be read.
        """
        if count is None:
            self._recent = None
            return sent
        if self._recent is None or self._recent.count != count:
            self._recent = RecentIds(self._directory, self._files, count, seed)
        new = self._recent.drop_repeats(sent)
        return sent if new is None else new

    def note(self, stored: BytesLike) -> None:
        """Record the ids of written messages; see RecentIds.note()."""
        if self._recent is not None:
            self._recent.note(stored)

    def forget(self) -> None:
        """Drop the ids; the next use reads the newest messages again."""
        self._recent = None
