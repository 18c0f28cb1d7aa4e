"""Submission: any process can commit staged batches, even if another process holds the log's lock.

committed before           no effect; an error if a later epoch of the writer is committed
the lock is free           this process acquires the lock briefly and appends
another process holds it   that process appends; this process waits, and takes over if the other process exits
no process appends         the commit is withdrawn, and the error names the lock's holder
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Final

from headstream.errors import CorruptLogError, InvalidInputError, LogLockedError, StorageError
from headstream.log.catalog.commit_records import CommitRecord
from headstream.log.log import Log
from headstream.log.opening import close_log, open_directory
from headstream.log.segments.layout import INBOX_NAME
from headstream.log.staged.staging import MANIFEST_SUFFIX, TAKEN_SUFFIX, Manifest, check_epoch, inbox_path, remove_staged

_FIRST_CHECK_S: Final = 0.001
_LAST_CHECK_S: Final = 0.02
_TAKEN_WAIT_FACTOR: Final = 4
"""Factor that extends the wait for a commit that another process is appending: such a commit cannot be withdrawn."""


def is_committed(directory: str, writer: str, epoch: int) -> bool:
    """Return whether an epoch of a writer, or a later epoch, is submitted or in the log in a directory."""
    log = open_directory(directory)
    try:
        return is_submitted(log, writer, epoch)
    finally:
        close_log(log)


def is_submitted(log: Log, writer: str, epoch: int) -> bool:
    """Return whether an epoch of a writer, or a later epoch, is submitted or in an open log."""
    return _is_done(log.commits.outcome(writer), epoch) or _is_in_inbox(log, writer, epoch)


def _is_done(record: CommitRecord | None, epoch: int) -> bool:
    return record is not None and (record.epoch > epoch or (record.epoch == epoch and record.state == "done"))


def _is_in_inbox(log: Log, writer: str, epoch: int) -> bool:
    return any(log.files.exists(inbox_path(log.root, writer, epoch, suffix)) for suffix in (MANIFEST_SUFFIX, TAKEN_SUFFIX))


def commit_staged(
    directory: str,
    manifest: Manifest,
    timeout_s: float,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Commit staged batches; return when all are in the log and the staged files are removed. A repeated call has no effect.

    Args:
        timeout_s: How long to wait for another process that holds the log's lock, seconds.

    Raises:
        LogLockedError: the process that holds the lock does not append; the commit is withdrawn, nothing is in the log.
        InvalidInputError: the batches cannot be appended, for example because a topic was deleted or a later epoch of the writer
            is committed; no message is in the log.
        StorageError: the operating system reported an error, or the commit was taken but not appended in time; the log's next
            writer completes the commit.
        CorruptLogError: the log's writer could not read the manifest.
    """
    log = open_directory(directory)
    try:
        commit_to(log, manifest, timeout_s, monotonic=monotonic, sleep=sleep)
    finally:
        close_log(log)


def commit_to(
    log: Log,
    manifest: Manifest,
    timeout_s: float,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Commit staged batches in an open log, with the arguments and errors of commit_staged()."""
    writer, epoch = manifest.writer, manifest.epoch
    check_epoch(writer, epoch)
    path = inbox_path(log.root, writer, epoch)
    before = log.commits.outcome(writer)
    _check_not_skipped(log, before, epoch)
    if _is_done(before, epoch):
        remove_staged(log.root, log.files, writer, epoch)
        return
    log.files.make_directory(f"{log.root}/{INBOX_NAME}")
    log.files.replace(path, manifest.encode(), durably=False)  # not acknowledged yet: a power cut can take it
    until, check_s = monotonic() + timeout_s, _FIRST_CHECK_S
    is_withdrawable = True
    while True:
        locked: LogLockedError | None = None
        failure: StorageError | None = None
        try:
            log.start_writing(str(uuid.uuid4()), time.time_ns() // 1000, briefly=True)
            log.commits.append_submitted()
        except LogLockedError as error:
            locked = error
        except StorageError as error:
            failure = error
        record = log.commits.outcome(writer)
        is_refused = record is not None and record != before and record.epoch == epoch and record.state == "refused"
        if is_refused or _is_done(record, epoch):
            if monotonic() <= until and _is_in_inbox(log, writer, epoch):
                sleep(_FIRST_CHECK_S)  # the other process is removing the manifest, or has exited before removing it
                continue
            if record is not None and is_refused:
                raise InvalidInputError(f"a staged commit was refused: {record.reason}", where=log.root)
            _check_not_skipped(log, record, epoch)
            return
        if failure is not None:
            raise failure
        if locked is None and not _is_in_inbox(log, writer, epoch):
            raise CorruptLogError(
                "the manifest of a staged commit was rejected; see the log output of the writing process for the reason",
                where=path,
                advice="Send the batch again",
            )
        if monotonic() > until and locked is not None:
            if not is_withdrawable:
                raise StorageError(
                    f"the commit was not appended in time: {locked.what}",
                    where=path,
                    advice="Do not send the commit again: the current or next writing process appends the stored commit once",
                )
            if _withdraw(log, path):
                raise _refusal(locked, timeout_s)
            is_withdrawable = False
            until = monotonic() + timeout_s * _TAKEN_WAIT_FACTOR
        sleep(check_s)
        check_s = min(check_s * 2, _LAST_CHECK_S)


def _check_not_skipped(log: Log, record: CommitRecord | None, epoch: int) -> None:
    """Raise an error if a later epoch of the writer was committed, because it is unknown whether this epoch was committed."""
    if record is not None and record.epoch > epoch:
        remove_staged(log.root, log.files, record.writer, epoch)
        raise InvalidInputError(
            f"epoch {epoch} of writer {record.writer!r} precedes the committed epoch {record.epoch}, and is not appended",
            where=log.root,
            advice="Use ascending epochs per writer, and another writer for another job",
        )


def _withdraw(log: Log, path: str) -> bool:
    """Withdraw a manifest; return False if the log's writer has already taken it."""
    try:
        log.files.rename(path, f"{path}.withdrawn")
    except StorageError:
        return False
    log.files.remove(f"{path}.withdrawn")
    return True


def _refusal(locked: LogLockedError, timeout_s: float) -> LogLockedError:
    return LogLockedError(
        f"{locked.what}; that process did not append the commit within {timeout_s:g} s",
        where=locked.where,
        advice="Nothing was written. The writing process appends commits in the background: stop that process if it hangs",
    )
