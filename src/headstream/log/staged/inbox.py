"""The inbox: manifests for the log's writer, and those set aside.

    <writer>-<epoch>.json      committed, and not taken yet
        <writer>-<epoch>.taken     being appended, or left by a writer that crashed meanwhile
        *.damaged                  set aside: the bytes are not a manifest
        *.misnamed                 set aside: the manifest's writer or epoch differs from its file's name
        *.unreadable               set aside: the system cannot read it, as when it is a directory

Files set aside stay until an operator moves them away; they never block another commit.
"""

from __future__ import annotations

import logging
from typing import Final

from headstream.errors import CorruptLogError, StorageError
from headstream.log.segments.layout import INBOX_NAME
from headstream.log.staged.staging import MANIFEST_SUFFIX, TAKEN_SUFFIX, Manifest, inbox_name, read_manifest
from headstream.log.system.files import Files

__all__ = ["list_manifests", "take_manifest"]

_log: Final = logging.getLogger("headstream.log")


def list_manifests(root: str, files: Files) -> list[str]:
    """Return the paths of the manifests in a log's inbox, in the order of their names."""
    inbox = f"{root}/{INBOX_NAME}"
    return [f"{inbox}/{name}" for name in sorted(files.list_names(inbox) or ()) if name.endswith((MANIFEST_SUFFIX, TAKEN_SUFFIX))]


def take_manifest(path: str, files: Files) -> Manifest | None:
    """Rename a manifest, so that it can no longer be withdrawn, and return it; None if it was withdrawn or is set aside.

    Args:
        path: The manifest's path.
        files: Its file system.

    Raises:
        StorageError: the system refused to rename it.
    """
    stem, _, suffix = path.rpartition(".")
    taken = f"{stem}{TAKEN_SUFFIX}"
    if f".{suffix}" != TAKEN_SUFFIX:
        try:
            files.rename(path, taken)
        except StorageError:
            if files.exists(path):
                raise
            return None  # withdrawn just now
    try:
        manifest = read_manifest(taken, files)
    except CorruptLogError as error:
        _set_aside(taken, files, "damaged", error.what)
        return None
    except StorageError as error:
        _set_aside(taken, files, "unreadable", error.what)
        return None
    if manifest is not None and inbox_name(manifest.writer, manifest.epoch, TAKEN_SUFFIX) != taken.rpartition("/")[2]:
        _set_aside(taken, files, "misnamed", f"it is of writer {manifest.writer!r}, epoch {manifest.epoch}")
        return None
    return manifest


def _set_aside(path: str, files: Files, why: str, reason: str) -> None:
    _log.error("a staged commit is set aside as %s.%s: %s", path, why, reason)
    files.rename(path, f"{path}.{why}")
