"""Modules of higher layers that register a dialect with codec/conversion.

The package's root fills the list, so that this layer does not import higher layers.
"""

from __future__ import annotations

from typing import Final

DIALECT_MODULES: Final[list[str]] = []
"""Full module names; codec/conversion imports these modules when it is first imported."""
