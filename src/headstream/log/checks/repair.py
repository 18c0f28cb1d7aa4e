"""Repairs of a damaged log whose result is certain; nothing is deleted.

    an index that is missing, short, damaged or wrong    rebuilt, if the messages prove every entry
    the newest segment's torn end, an unfinished roll    repaired as at every opening by a writer (recovery.py)
    a partition's missing directory                      created, empty, only if the loss is accepted
    a file that is not part of a log                     renamed with a suffix; its content is kept

A send with damaged bytes is not changed; only a backup can restore it. Rebuilding an index keeps complete entries, even of
damaged sends, so that no repair hides damage.
"""

from __future__ import annotations

from headstream.errors import CorruptLogError
from headstream.log.checks.partition_verification import verify_partition
from headstream.log.checks.verification import PartitionDirectory, Verification
from headstream.log.directory.lock import WriterLock
from headstream.log.partition.index_rebuild import Action, IndexRebuild, free_quarantine_path
from headstream.log.partition.offsets import OffsetStore
from headstream.log.partition.recovery import begin_segment, recover
from headstream.log.partition.segment_removal import open_index
from headstream.log.segments.files import BufferPool
from headstream.log.segments.layout import INDEX_SUFFIX, LOCK_NAME, OFFSETS_NAME, base_offsets, log_offsets, segment_path
from headstream.log.system.files import Files
from headstream.log.system.findings import FindingKind, LogFinding

__all__ = ["Action", "repair_log", "repair_partition"]

_INDEX_KINDS = (
    FindingKind.INDEX_MISSING,
    FindingKind.INDEX_HEAD,
    FindingKind.INDEX_ENTRY,
    FindingKind.INDEX_ORDER,
    FindingKind.INDEX_SHORT,
)


def repair_log(root: str, files: Files, *, accept_loss: bool = False) -> list[Action]:
    """Make the safe repairs of a log, as its writer; return the actions taken.

    Args:
        accept_loss: Whether partitions with missing directories continue without their messages.

    Raises:
        LogLockedError: another process is the writer.
        NotALogError: the directory contains no log.
    """
    verification = Verification(root, files)
    lock = WriterLock(f"{root}/{LOCK_NAME}")
    lock.acquire()
    try:
        return [action for partition in verification.partitions() for action in _repair_partition(partition, files, accept_loss)]
    finally:
        lock.release()


def _repair_partition(partition: PartitionDirectory, files: Files, accept_loss: bool) -> list[Action]:
    topic = partition.directory.rpartition("/")[0]
    committed = OffsetStore(f"{topic}/{OFFSETS_NAME}", files).greatest(partition.number)
    if files.list_names(partition.directory) is not None:
        return repair_partition(partition.directory, files, committed)
    if not accept_loss:
        return []
    files.make_directory(partition.directory)
    files.sync_directory(topic)
    if committed:  # no committed offset is beyond the end, and no offset that a consumer has read is assigned again
        begin_segment(partition.directory, committed, files)
    what = f"the partition's directory was missing: the messages are lost, and the new partition begins at offset {committed}"
    return [Action(partition.directory, what)]


def repair_partition(directory: str, files: Files, committed: int = 0) -> list[Action]:
    """Make the safe repairs of a partition that had messages up to `committed`; return the actions taken."""
    actions: list[Action] = []
    buffers = BufferPool()
    findings = list(verify_partition(directory, files, buffers))
    actions += [_quarantine_file(finding.path, files) for finding in findings if finding.kind is FindingKind.FILE_UNKNOWN]
    damaged = {finding.path for finding in findings if finding.kind in _INDEX_KINDS}
    names = files.list_names(directory) or []
    generations: dict[int, list[int]] = {}
    for base, generation in log_offsets(names):
        generations.setdefault(base, []).append(generation)
    bases = sorted({*generations, *base_offsets(names)})
    for number, base in enumerate(bases):
        if segment_path(directory, base, INDEX_SUFFIX) in damaged:
            next_base = bases[number + 1] if number + 1 < len(bases) else None
            if len(generations.get(base, ())) == 1:  # of two .log files, only the index names the valid file
                actions += IndexRebuild(directory, base, next_base, files, generations[base][0]).run()
    newest = segment_path(directory, bases[-1], INDEX_SUFFIX) if bases else ""
    actions += _begin_behind_missing(directory, bases[-1], committed, files) if bases else []
    is_rebuilt = any(action.path == newest for action in actions)
    if is_rebuilt or any(_is_of_newest(finding, bases) for finding in findings):
        actions += _recover(directory, files)
    return actions


def _begin_behind_missing(directory: str, newest: int, committed: int, files: Files) -> list[Action]:
    """Start a new segment if the newest segment's files are missing; reads of the missing offsets raise an error."""
    try:
        index = open_index(directory, newest, files)
    except CorruptLogError:
        return []
    if index is None:
        return []
    index.close()
    if index.seal is None:
        return []
    base = max(index.seal.until_offset, committed)
    begin_segment(directory, base, files)
    what = f"the newest segment's files are missing, from offset {index.seal.until_offset}: a new segment begins at {base}"
    return [Action(directory, what)]


def _is_of_newest(finding: LogFinding, bases: list[int]) -> bool:
    return finding.kind is FindingKind.TAIL and bool(bases) and f"/{bases[-1]:020d}." in finding.path


def _recover(directory: str, files: Files) -> list[Action]:
    """Repair the newest segment's end, as each opening by a writer does."""
    before = _sizes(directory, files)
    try:
        tail = recover(directory, files)
    except CorruptLogError:
        return []  # the next verification reports it
    if _sizes(directory, files) == before:
        return []
    return [Action(directory, f"the end of the newest segment was repaired; the partition ends at offset {tail.end_offset}")]


def _sizes(directory: str, files: Files) -> dict[str, int]:
    sizes = {}
    for name in files.list_names(directory) or []:
        file = files.open_read(f"{directory}/{name}")
        if file is not None:
            sizes[name] = file.size_bytes()
            file.close()
    return sizes


def _quarantine_file(path: str, files: Files) -> Action:
    target = free_quarantine_path(path, files)
    files.rename(path, target)
    return Action(path, f"renamed to {target.rpartition('/')[2]}: the file is not part of a log")
