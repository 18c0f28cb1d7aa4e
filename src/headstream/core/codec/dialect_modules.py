"""Modules that register a dialect with codec/conversion: formats of higher layers.

The package's root fills the list, so that this layer does not import upwards.
"""

from __future__ import annotations

from typing import Final

DIALECT_MODULES: Final[list[str]] = []
"""Full names of modules; codec/conversion imports them on its first import."""
