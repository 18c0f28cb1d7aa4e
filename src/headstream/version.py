"""The version, in one place."""

from __future__ import annotations

from typing import Final

__all__ = ["__version__"]

__version__: Final = "0.2.0"
