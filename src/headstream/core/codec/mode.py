"""Determines whether the kernels run compiled or interpreted.

The environment variable `HEADSTREAM_INTERPRETED=1` runs every module from its Python source, even if a compiled module exists.
Use the variable for debugging, for comparisons, or to avoid a faulty build.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import warnings
from collections.abc import Sequence
from types import ModuleType
from typing import Final

from headstream.errors import EnvironmentSetupError

_PREFIX: Final = "headstream."
_has_warned = False


class InterpretedFinder:
    """Finds the Python sources of headstream's modules, and ignores compiled files.

    Implements importlib.abc.MetaPathFinder without inheriting from it: importing it takes a quarter of headstream's import time.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module's source, or None for packages and modules outside of headstream."""
        if not fullname.startswith(_PREFIX) or path is None:
            return None
        source = importlib.machinery.SourceFileLoader, importlib.machinery.SOURCE_SUFFIXES
        for entry in path:
            spec = importlib.machinery.FileFinder(entry, source).find_spec(fullname, target)
            if spec is not None:
                return spec
        return None


def _is_requested() -> bool:
    return os.environ.get("HEADSTREAM_INTERPRETED", "") not in ("", "0")


def choose() -> None:
    """Run all modules interpreted if the environment requests this; EnvironmentSetupError if Python runs without the GIL."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise EnvironmentSetupError(
            "Headstream cannot run in free-threaded Python while the GIL is disabled",
            advice="Set PYTHON_GIL=1, or use a Python build with the GIL",
        )
    if _is_requested():
        sys.meta_path.insert(0, InterpretedFinder())


def warn_if_interpreted() -> None:
    """Warn once per process if the kernels run interpreted although the environment does not request it."""
    global _has_warned
    if _has_warned or _is_requested() or compiled():
        return
    _has_warned = True
    warnings.warn(
        "Headstream's kernels run interpreted, 70 to 300 times slower: the package was installed without a C compiler. Install "
        "a compiler (Debian: apt-get install gcc python3-dev) and run: pip install --force-reinstall --no-deps headstream. "
        "HEADSTREAM_INTERPRETED=1 silences this warning",
        RuntimeWarning,
        stacklevel=4,  # the caller of connect()
    )


def compiled() -> bool:
    """Return whether the kernels are compiled."""
    import importlib.util  # this import takes a tenth of the time of `import headstream`

    spec = importlib.util.find_spec("headstream.core.codec.batch.stored.stamp")
    return spec is not None and isinstance(spec.loader, importlib.machinery.ExtensionFileLoader)


def describe() -> str:
    """Return the line for `--version`: whether the kernels are compiled, and which instructions compute checksums."""
    from headstream.core.codec.batch import checksum

    if not compiled():
        return "kernels interpreted"
    return f"kernels compiled, checksums by {('tables', 'PCLMULQDQ', 'VPCLMULQDQ')[checksum.checksum_level()]}"
