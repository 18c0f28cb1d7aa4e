"""OffsetFileCounts: counts and limits the offset files that each user of a server has created.

Each consumer or group that commits in a topic uses one file (partition/offsets.py), which takes a disk block of 4 KiB and must be
read when groups are listed. Clients choose the names, so without a limit one user could fill the disk with offset files. The
file's head names the user who committed first. Processes without a server, which have access to the directory anyway, create
files of user 0, which are neither counted nor limited.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Final

from headstream.errors import ConsumersLimitError

NO_USER: Final = 0
"""The user of files that a process without a server creates."""


class OffsetFileCounts:
    """The number of offset files that each user has created in a log, at most `most` (None: unlimited). Thread-safe."""

    def __init__(self) -> None:
        self.most: int | None = None
        self._lock = threading.Lock()
        self._made: dict[str, Counter[int]] = {}
        self._totals: Counter[int] = Counter()

    def load(self, directory: str, made: Mapping[int, int]) -> None:
        """Replace the counts of one topic's directory; `made` maps user ids to counts."""
        with self._lock:
            self._drop(directory)
            self._made[directory] = Counter({user_id: count for user_id, count in made.items() if user_id != NO_USER})
            self._totals.update(self._made[directory])

    def claim(self, directory: str, user_id: int) -> None:
        """Count a file that a user, or NO_USER, is about to create; ConsumersLimitError if the user has reached the limit."""
        if user_id == NO_USER:
            return
        with self._lock:
            if self.most is not None and self._totals[user_id] >= self.most:
                raise ConsumersLimitError(
                    f"user {user_id} has reached the limit of {self.most} consumers and groups with stored offsets",
                    advice="Use fewer consumer ids, delete the offsets of unused consumers, or"
                    " raise headstream.max_consumers_per_user",
                )
            self._made.setdefault(directory, Counter())[user_id] += 1
            self._totals[user_id] += 1

    def release(self, directory: str, user_id: int) -> None:
        """Subtract a file that was removed or could not be created."""
        with self._lock:
            made = self._made.get(directory)
            if made is not None and made[user_id] > 0:
                made[user_id] -= 1
                self._totals[user_id] -= 1

    def drop(self, directory: str) -> None:
        """Subtract the files of a removed topic."""
        with self._lock:
            self._drop(directory)

    def _drop(self, directory: str) -> None:
        self._totals.subtract(self._made.pop(directory, Counter()))
