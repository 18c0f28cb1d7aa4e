"""What can be mended of a damaged log without guessing; nothing is deleted.

    an index that is missing, short, damaged or lying    built again, where the messages prove every entry of it
    the newest segment's torn tail, a begun roll         as at every opening by a writer (recovery.py)
    a file that is no part of a log                      set aside: it keeps its bytes and gets a name that says so

A send whose bytes were changed stays as it is: only a copy brings it back. An entry that is whole is kept when an index
is built again, also where its send is damaged, so that no repair makes damage look sound.
"""

from __future__ import annotations

from headstream.errors import CorruptLogError
from headstream.log.files import Files
from headstream.log.findings import Finding, FindingKind
from headstream.log.index_rebuild import Action, IndexRebuild, free_aside_name
from headstream.log.lock import WriterLock
from headstream.log.offsets import OffsetStore
from headstream.log.partition_verification import verify_partition
from headstream.log.recovery import begin_segment, recover
from headstream.log.segment_removal import open_index
from headstream.log.verification import Place, Verification
from headstream.segments.files import BufferPool
from headstream.segments.layout import (
    INDEX_SUFFIX,
    LOCK_NAME,
    OFFSETS_NAME,
    base_offsets,
    log_offsets,
    segment_path,
)

__all__ = ["Action", "repair_log", "repair_partition"]

_INDEX_KINDS = (
    FindingKind.INDEX_MISSING,
    FindingKind.INDEX_HEAD,
    FindingKind.INDEX_ENTRY,
    FindingKind.INDEX_ORDER,
    FindingKind.INDEX_SHORT,
)


def repair_log(root: str, files: Files) -> list[Action]:
    """Do what is safe to mend a log, as its writer, and return what was done.

    Args:
        root: The log's directory.
        files: Where it is.

    Raises:
        LogLockedError: another process is the writer.
        NotALogError: there is no log.
        StorageError: the system refused an operation.
    """
    verification = Verification(root, files)
    lock = WriterLock(f"{root}/{LOCK_NAME}")
    lock.acquire()
    try:
        return [action for place in verification.places() for action in _repair_place(place, files)]
    finally:
        lock.release()


def _repair_place(place: Place, files: Files) -> list[Action]:
    if files.list_names(place.directory) is None:
        return []
    offsets = OffsetStore(f"{place.directory.rpartition('/')[0]}/{OFFSETS_NAME}", files)
    return repair_partition(place.directory, files, offsets.greatest(place.partition))


def repair_partition(directory: str, files: Files, committed: int = 0) -> list[Action]:
    """Do what is safe to mend a partition, and return what was done.

    Args:
        directory: The partition's; the caller holds the log's lock.
        files: Where it is.
        committed: The greatest offset that a consumer has committed in it: the partition had messages up to there.
    """
    actions: list[Action] = []
    buffers = BufferPool()
    findings = list(verify_partition(directory, files, buffers))
    actions += [_set_file_aside(finding.path, files) for finding in findings if finding.kind is FindingKind.FILE_STRANGE]
    damaged = {finding.path for finding in findings if finding.kind in _INDEX_KINDS}
    names = files.list_names(directory) or []
    generations: dict[int, list[int]] = {}
    for base, generation in log_offsets(names):
        generations.setdefault(base, []).append(generation)
    bases = sorted({*generations, *base_offsets(names)})
    for number, base in enumerate(bases):
        if segment_path(directory, base, INDEX_SUFFIX) in damaged:
            next_base = bases[number + 1] if number + 1 < len(bases) else None
            if len(generations.get(base, ())) == 1:  # of two, only the index says which holds
                actions += IndexRebuild(directory, base, next_base, files, generations[base][0]).run()
    newest = segment_path(directory, bases[-1], INDEX_SUFFIX) if bases else ""
    actions += _begin_behind_missing(directory, bases[-1], committed, files) if bases else []
    is_rebuilt = any(action.path == newest for action in actions)
    if is_rebuilt or any(_is_of_newest(finding, bases) for finding in findings):
        actions += _recover(directory, files)
    return actions


def _begin_behind_missing(directory: str, newest: int, committed: int, files: Files) -> list[Action]:
    """Begin a segment in place of the newest, if its files are missing; readers are told of the offsets between."""
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
    what = f"the newest segment's files are missing, from offset {index.seal.until_offset} on: a segment is begun at {base}"
    return [Action(directory, what)]


def _is_of_newest(finding: Finding, bases: list[int]) -> bool:
    return finding.kind is FindingKind.TAIL and bool(bases) and f"/{bases[-1]:020d}." in finding.path


def _recover(directory: str, files: Files) -> list[Action]:
    """Let the newest segment's end be mended as it is at each opening."""
    before = _sizes(directory, files)
    try:
        tail = recover(directory, files)
    except CorruptLogError:
        return []  # what it says is what the next verification says
    if _sizes(directory, files) == before:
        return []
    return [Action(directory, f"the newest segment's tail was mended; the partition ends at offset {tail.end_offset}")]


def _sizes(directory: str, files: Files) -> dict[str, int]:
    sizes = {}
    for name in files.list_names(directory) or []:
        file = files.open_read(f"{directory}/{name}")
        if file is not None:
            sizes[name] = file.size_bytes()
            file.close()
    return sizes


def _set_file_aside(path: str, files: Files) -> Action:
    target = free_aside_name(path, files)
    files.rename(path, target)
    return Action(path, f"set aside as {target.rpartition('/')[2]}: it is no part of a log")
