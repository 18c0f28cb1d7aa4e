"""Modules of higher layers that register a dialect with codec/conversion.

The package's root fills the list, so that this layer does not import higher layers.
"""

from __future__ import annotations

from typing import Final

DIALECT_MODULES: Final[list[str]] = []
"""Full names of modules; codec/conversion imports them on its first import."""
