"""Deduplication: drops a message whose id one of the newest messages of its partition has.

    send -> checked -> repeats dropped -> stamped -> written -> the new ids noted

The remembered ids belong to the newest messages on the disk, generated or sent. So no other file is needed, and the next writer
process reads them at its first append, from the newest
messages. The bytes read are bounded, and so is the time.
"""

from __future__ import annotations

from typing import Final

from headstream.core.codec.batch.stored.repeats import drop_repeats, new_id_window, note_ids
from headstream.core.codec.buffer import BytesLike
from headstream.log.segments.files import ReadFiles
from headstream.log.segments.follower import PartitionFollower

REREAD_BYTES: Final = 1 << 30
"""The newest messages, by whole segments, read at the first append: a second if cached."""


class RecentIds:
    """The ids of a partition's newest messages.

    Args:
        count: Number of remembered ids.
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
        """Return a sent batch without the repeated messages, or None if all are new; stores no id."""
        return drop_repeats(sent, self._window)

    def note(self, stored: BytesLike) -> None:
        """Remember the ids of messages that have been written, in place of the oldest."""
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
            count: Number of remembered ids, by the topic's present option; None disables deduplication.
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
        """Store the ids of messages that have been written; see RecentIds.note()."""
        if self._recent is not None:
            self._recent.note(stored)

    def forget(self) -> None:
        """Read the newest messages again when their ids are needed."""
        self._recent = None
