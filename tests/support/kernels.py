"""Both ways that a kernel runs, for tests: compiled where it was built, and interpreted from its source.

scan = kernels.fixture("batch.stored.scan")
"""

from __future__ import annotations

import functools
import importlib
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

from headstream.core.codec.mode import InterpretedFinder

_PACKAGES = (
    "headstream.core.codec.",
    "headstream.core.wire.",
    "headstream.log.segments.",
    "headstream.log.",
    "headstream.broker.",
    "headstream.server.",
    "headstream.replicate.",
)
_MISSING = ModuleType("missing")


@functools.cache
def interpreted(name: str) -> ModuleType:
    """Return a module of headstream.core.codec that runs from its source, and all it imports from there as well.

    Args:
        name: The module's name below headstream.core.codec, as in `batch.scan`, or its full name.
    """
    fullname = _fullname(name)
    shelved = {key: module for key, module in sys.modules.items() if key.startswith(_PACKAGES)}
    parents = {key: dict(vars(module)) for key, module in shelved.items()}
    finder = InterpretedFinder()
    for key, module in shelved.items():
        if _is_compiled(module):
            del sys.modules[key]
    sys.meta_path.insert(0, finder)
    cython = sys.modules.get("cython", _MISSING)
    sys.modules["cython"] = None  # type: ignore[assignment]  # as on a machine that has none: headstream.core.codec.uncompiled
    try:
        module = importlib.import_module(fullname)
    finally:
        sys.meta_path.remove(finder)
        del sys.modules["cython"]
        if cython is not _MISSING:
            sys.modules["cython"] = cython
        for key in [key for key in sys.modules if key.startswith(_PACKAGES) and key not in shelved]:
            del sys.modules[key]
        sys.modules.update(shelved)
        for key, attributes in parents.items():  # an import also binds the module in its package
            for added in vars(shelved[key]).keys() - attributes.keys():
                delattr(shelved[key], added)
            vars(shelved[key]).update(attributes)
    assert not _is_compiled(module)
    return module


def variants(name: str) -> list[ModuleType]:
    """Return a module of headstream.core.codec in each way it runs here: [compiled, interpreted] or [interpreted].

    Args:
        name: The module's name below headstream.core.codec, as in `batch.scan`, or its full name.
    """
    usual = importlib.import_module(_fullname(name))
    return [usual, interpreted(name)] if _is_compiled(usual) else [usual]


def fixture(name: str) -> Callable[..., ModuleType]:
    """Return a fixture that gives a test the module in each way it runs here, as `variants` does."""

    def kernel(request: pytest.FixtureRequest) -> ModuleType:
        module: ModuleType = request.param
        return module

    return pytest.fixture(kernel, params=variants(name), ids=name_of)


def name_of(module: ModuleType) -> str:
    """Return how a module runs, as a test's id."""
    return "compiled" if _is_compiled(module) else "interpreted"


def _fullname(name: str) -> str:
    return name if name.startswith("headstream.") else _PACKAGES[0] + name


def _is_compiled(module: ModuleType) -> bool:
    return isinstance(getattr(module.__spec__, "loader", None), importlib.machinery.ExtensionFileLoader)
