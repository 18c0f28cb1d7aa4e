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
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Final

__all__ = ["InterpretedFinder", "choose", "compiled", "describe", "warn_if_interpreted"]

_PREFIX: Final = "headstream."
_has_warned = False


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


def _is_asked_for() -> bool:
    return os.environ.get("HEADSTREAM_INTERPRETED", "") not in ("", "0")


def choose() -> None:
    """Make all modules run interpreted if the environment asks for it."""
    if _is_asked_for():
        sys.meta_path.insert(0, InterpretedFinder())


def warn_if_interpreted() -> None:
    """Warn once a process where the kernels run interpreted although the environment does not ask for that."""
    global _has_warned
    if _has_warned or _is_asked_for() or compiled():
        return
    _has_warned = True
    warnings.warn(
        "Headstream's kernels run interpreted, 20 to 100 times slower: the package was installed without a C compiler. Install "
        "one (Debian: apt-get install gcc python3-dev) and run: pip install --force-reinstall --no-deps headstream. "
        "HEADSTREAM_INTERPRETED=1 takes it as it is",
        RuntimeWarning,
        stacklevel=4,  # where connect() is called
    )


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
