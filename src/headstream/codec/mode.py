"""Whether the hot path runs compiled or interpreted.

`HEADSTREAM_INTERPRETED=1` in the environment makes every module run from its Python source although a
compiled one lies beside it: to debug, to compare, or to step around a bad build.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Final

__all__ = ["InterpretedFinder", "choose", "compiled", "describe"]

_PREFIX: Final = "headstream."


class InterpretedFinder(importlib.abc.MetaPathFinder):
    """Finds the modules of headstream by their Python source, never by a compiled file."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return where the source of a module is, or None for other modules and for packages."""
        if not fullname.startswith(_PREFIX) or path is None:
            return None
        source = importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES
        for entry in path:
            spec = importlib.machinery.FileFinder(entry, source).find_spec(fullname, target)
            if spec is not None:
                return spec
        return None


def choose() -> None:
    """Make all modules run interpreted if the environment asks for it."""
    if os.environ.get("HEADSTREAM_INTERPRETED", "") not in ("", "0"):
        sys.meta_path.insert(0, InterpretedFinder())


def compiled() -> bool:
    """Return whether the hot path runs compiled."""
    spec = importlib.util.find_spec("headstream.codec.batch.stamp")
    return spec is not None and isinstance(spec.loader, importlib.machinery.ExtensionFileLoader)


def describe() -> str:
    """Return one line for `--version`: how the hot path runs, and what computes its checksums."""
    from headstream.codec.batch import checksum

    if not compiled():
        return "kernels interpreted"
    return f"kernels compiled, checksums by {('tables', 'PCLMULQDQ', 'VPCLMULQDQ')[checksum.checksum_level()]}"
