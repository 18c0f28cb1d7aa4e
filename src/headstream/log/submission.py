"""Submission: how any process commits what was staged, whoever has the log's lock.

committed before         nothing is to be done; behind a later epoch of its writer, it is an error
the lock is free         this process takes it for a moment and appends
another process has it   that one appends and clears away; it is waited for, and taken over from if it ends
nobody does              the commit is withdrawn, and the one who has the lock is named
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Final

from headstream.errors import CorruptLogError, InvalidInputError, LogLockedError, StorageError
from headstream.log.commit_records import CommitRecord
from headstream.log.log import Log
from headstream.log.opening import close_log, open_directory
from headstream.log.staging import MANIFEST_SUFFIX, TAKEN_SUFFIX, Manifest, check_epoch, inbox_path, remove_staged
from headstream.segments.layout import INBOX_NAME

__all__ = ["commit_staged", "commit_to", "is_committed", "is_taken_up"]

_FIRST_LOOK_S: Final = 0.001
_LAST_LOOK_S: Final = 0.02
_TAKEN_WAIT_FACTOR: Final = 4
"""What another process is appending already cannot be withdrawn: it is given more time."""


def is_committed(directory: str, writer: str, epoch: int) -> bool:
    """Return whether an epoch of a writer, or a later one, is in the log or about to be.

    Args:
        directory: The log's.
        writer: Who commits.
        epoch: Its number.
    """
    log = open_directory(directory)
    try:
        return is_taken_up(log, writer, epoch)
    finally:
        close_log(log)


def is_taken_up(log: Log, writer: str, epoch: int) -> bool:
    """Return what is_committed() does of a log that is open; arguments are the same."""
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
    """Commit what was staged, and return when it is all in the log and nothing is staged; a second time it does nothing.

    Args:
        directory: The log's.
        manifest: What belongs together.
        timeout_s: How long another process that has the log's lock is waited for.
        monotonic: A clock in seconds.
        sleep: Waits so many seconds.

    Raises:
        LogLockedError: the process that has the lock does not append it; the commit is withdrawn, nothing is in the log.
        InvalidInputError: it cannot be appended, as when a topic is gone, or a later epoch of its writer was committed; nothing
            is in the log.
        StorageError: the system refused; what was begun is finished by the log's next writer.
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
    """Commit what was staged in a log that is open, as commit_staged() does; arguments and errors are the same."""
    writer, epoch = manifest.writer, manifest.epoch
    check_epoch(writer, epoch)
    path = inbox_path(log.root, writer, epoch)
    before = log.commits.outcome(writer)
    _check_not_skipped(log, before, epoch)
    if _is_done(before, epoch):
        remove_staged(log.root, log.files, writer, epoch)
        return
    log.files.make_directory(f"{log.root}/{INBOX_NAME}")
    log.files.replace(path, manifest.encode(), durably=False)  # what a power cut takes now nobody was told is committed
    until, look_s = monotonic() + timeout_s, _FIRST_LOOK_S
    is_withdrawable = True
    while True:
        locked: LogLockedError | None = None
        failure: StorageError | None = None
        try:
            log.start_writing(str(uuid.uuid4()), time.time_ns() // 1000, briefly=True)
            log.commits.take_in()
        except LogLockedError as error:
            locked = error
        except StorageError as error:
            failure = error
        record = log.commits.outcome(writer)
        is_refused = record is not None and record != before and record.epoch == epoch and record.state == "refused"
        if is_refused or _is_done(record, epoch):
            if monotonic() <= until and _is_in_inbox(log, writer, epoch):
                sleep(_FIRST_LOOK_S)  # the other process is just clearing away, or ends and leaves that to this one
                continue
            if record is not None and is_refused:
                raise InvalidInputError(f"a staged commit was refused: {record.reason}", where=log.root)
            _check_not_skipped(log, record, epoch)
            return
        if failure is not None:
            raise failure
        if locked is None and not _is_in_inbox(log, writer, epoch):
            raise CorruptLogError(
                "the manifest of a staged commit was set aside, for a reason that the writer's log tells",
                where=path,
                advice="Send the batch again",
            )
        if monotonic() > until and locked is not None:
            if not is_withdrawable:
                raise StorageError(
                    f"what was committed is not appended in time: {locked.what}",
                    where=path,
                    advice="It is kept, and appended once, by that process or by the log's next writer: do not send it again",
                )
            if _withdraw(log, path):
                raise _refusal(locked, timeout_s)
            is_withdrawable = False
            until = monotonic() + timeout_s * _TAKEN_WAIT_FACTOR
        sleep(look_s)
        look_s = min(look_s * 2, _LAST_LOOK_S)


def _check_not_skipped(log: Log, record: CommitRecord | None, epoch: int) -> None:
    """Refuse an epoch that is behind another one of its writer: whether it was committed in its time is not known any more."""
    if record is not None and record.epoch > epoch:
        remove_staged(log.root, log.files, record.writer, epoch)
        raise InvalidInputError(
            f"epoch {epoch} of writer {record.writer!r} is behind its epoch {record.epoch}: it is not appended",
            where=log.root,
            advice="Epochs of a writer ascend; give another job a writer of its own",
        )


def _withdraw(log: Log, path: str) -> bool:
    """Take a manifest back, and return whether that was in time."""
    try:
        log.files.rename(path, f"{path}.withdrawn")
    except StorageError:
        return False
    log.files.remove(f"{path}.withdrawn")
    return True


def _refusal(locked: LogLockedError, timeout_s: float) -> LogLockedError:
    return LogLockedError(
        f"{locked.what}; it has not taken in what was committed within {timeout_s:g} s",
        where=locked.where,
        advice="A process that uses Headstream does so in the background: end that one if it hangs. Nothing was written",
    )
