"""The inbox: the manifests that the log's writer takes up, and those that it sets aside.

    <writer>-<epoch>.json      committed, and not taken up yet
    <writer>-<epoch>.taken     being appended, or left by a writer that died meanwhile
    *.damaged                  set aside: the bytes are no manifest
    *.misnamed                 set aside: the manifest is of another writer or epoch than its file's name says
    *.unreadable               set aside: the system does not read it, as when it is a directory

What is set aside stays until somebody moves it away; it never stops another commit.
"""

from __future__ import annotations

import logging
from typing import Final

from headstream.errors import CorruptLogError, StorageError
from headstream.log.files import Files
from headstream.log.staging import MANIFEST_SUFFIX, TAKEN_SUFFIX, Manifest, inbox_name, read_manifest
from headstream.segments.layout import INBOX_NAME

__all__ = ["take_manifest", "waiting_manifests"]

_log: Final = logging.getLogger("headstream.log")


def waiting_manifests(root: str, files: Files) -> list[str]:
    """Return the paths of the manifests in a log's inbox, in the order of their names."""
    inbox = f"{root}/{INBOX_NAME}"
    return [f"{inbox}/{name}" for name in sorted(files.list_names(inbox) or ()) if name.endswith((MANIFEST_SUFFIX, TAKEN_SUFFIX))]


def take_manifest(path: str, files: Files) -> Manifest | None:
    """Rename a manifest, so that it cannot be withdrawn any more, and return it; None where it was withdrawn or is set aside.

    Args:
        path: The manifest's.
        files: Where it is.

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
