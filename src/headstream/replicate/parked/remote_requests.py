"""Requests to a pipeline whose checkpoint is in an object store. A request is an object, which the run moves into its ledger.

    <checkpoint>/requests/<time in us>-<uuid>     {"kind": "redrive", "arguments": {…}, "asked_us": …}

The run stores the object's name with the request, and deletes the object after its checkpoint has stored the request. Thus, a
request is not repeated after a crash.
"""

from __future__ import annotations

import json
import logging
import uuid
from typing import Any, Final

from headstream.errors import StorageError
from headstream.replicate.checkpoint.checkpoint_store import CheckpointStore, ObjectCheckpointStore
from headstream.replicate.parked.ledger import Ledger
from headstream.replicate.parked.requests import RequestKind
from headstream.replicate.storage.places import StorePlace
from headstream.replicate.storage.store_files import StoreFiles

_LOGGER: Final = logging.getLogger("headstream.replicate")
_FOLDER: Final = "requests"
_NAME: Final = "remote"
_CHECK_EVERY_US: Final = 5_000_000


def ask_remotely(place: StorePlace, kind: RequestKind, arguments: dict[str, Any], now_us: int) -> str:
    """Store a request as an object; return its name.

    Raises:
        StorageError: the store cannot be written to.
    """
    name = f"{now_us:017d}-{uuid.uuid4().hex}"
    document = {"kind": kind, "arguments": arguments, "asked_us": now_us}
    StoreFiles(place / _FOLDER / name).write(json.dumps(document).encode())
    return name


class RemoteRequests:
    """The requests that a run moves from the store to its ledger; does nothing for a checkpoint in a directory."""

    def __init__(self, ledger: Ledger, checkpoint_store: CheckpointStore) -> None:
        self._ledger = ledger
        self._checkpoint_store = checkpoint_store
        self._place = checkpoint_store.place / _FOLDER if isinstance(checkpoint_store, ObjectCheckpointStore) else None
        self._next_check_us = 0

    def take(self, now_us: int) -> int:
        """Move the requests into the ledger, at most every five seconds; return their number. Unreadable requests stay."""
        if self._place is None or now_us < self._next_check_us:
            return 0
        self._next_check_us = now_us + _CHECK_EVERY_US
        known = {name for (name,) in self._ledger.rows(f"SELECT json_extract(arguments, '$.{_NAME}') FROM requests")}
        try:
            names = StoreFiles(self._place).names()
            found = {name: StoreFiles(self._place / name).read() for name in names if name not in known}
        except StorageError as error:
            _LOGGER.warning("requests to the pipeline cannot be read; retrying later: %s", error)
            return 0
        new = {name: json.loads(read[0]) for name, read in found.items() if read is not None}
        for name, document in new.items():
            arguments = json.dumps(document["arguments"] | {_NAME: name})
            with self._ledger.transaction() as connection:
                query = "INSERT INTO requests (kind, arguments, asked_us) VALUES (?, ?, ?)"
                connection.execute(query, (document["kind"], arguments, document["asked_us"]))
        if names:
            self._checkpoint_store.save()
            self._remove(self._place, names)
        return len(new)

    @staticmethod
    def _remove(folder: StorePlace, names: list[str]) -> None:
        try:
            for name in names:
                StoreFiles(folder / name).remove()
        except StorageError as error:
            _LOGGER.warning("processed requests to the pipeline cannot be deleted; retrying later: %s", error)
