"""Descriptors of deletion vectors in a Delta log: which rows of a data file are deleted, and where that is stored.

storageType  pathOrInlineDv                            the vector is
u            optional prefix, 20 characters of Z85     in the table, <prefix>/deletion_vector_<uuid>.bin
p            a URI                                     in a file, perhaps of another table
i            Z85                                       in the descriptor itself
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headstream.errors import DecodeError

__all__ = ["DeletionVector"]

_UUID_CHARACTERS: Final = 20
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85: Final = str.maketrans(_Z85 + "".join(set(_B85) - set(_Z85)), _B85 + "\0" * len(set(_B85) - set(_Z85)))
"""Both number the same groups of five characters with other alphabets; a character of the other one alone is invalid."""


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """The descriptor of one deletion vector.

    Args:
        storage: `u`, `p` or `i`.
        value: `pathOrInlineDv`.
        offset: Where it begins in its file, bytes; None for an inline one.
        size_bytes: Of the vector.
        cardinality: Number of deleted rows.
    """

    storage: str
    value: str
    offset: int | None
    size_bytes: int
    cardinality: int

    @classmethod
    def from_action(cls, action: Mapping[str, Any]) -> DeletionVector:
        """Return the descriptor of a `deletionVector` of an add or remove action."""
        return cls(
            action["storageType"], action["pathOrInlineDv"], action.get("offset"), action["sizeInBytes"], action["cardinality"]
        )

    @property
    def path(self) -> str | None:
        """Its file: the path within the table's directory, or the whole path of a URI; None for an inline one.

        Raises:
            DecodeError: the descriptor is invalid.
        """
        if self.storage == "i":
            return None
        if self.storage == "p":
            return unquote(urlsplit(self.value).path)
        if self.storage != "u" or len(self.value) < _UUID_CHARACTERS:
            raise _invalid(self)
        prefix, encoded = self.value[:-_UUID_CHARACTERS], self.value[-_UUID_CHARACTERS:]
        name = f"deletion_vector_{uuid.UUID(bytes=self._decoded(encoded))}.bin"
        return f"{prefix}/{name}" if prefix else name

    @property
    def inline(self) -> bytes | None:
        """The vector itself, if the descriptor contains it.

        Raises:
            DecodeError: the descriptor is invalid.
        """
        return self._decoded(self.value)[: self.size_bytes] if self.storage == "i" else None

    def _decoded(self, text: str) -> bytes:
        try:
            if len(text) % 5:
                raise ValueError("its length")
            return base64.b85decode(text.translate(_TO_B85))
        except ValueError:
            raise _invalid(self) from None


def _invalid(vector: DeletionVector) -> DecodeError:
    return DecodeError(f"the deletion vector {vector.value!r} of type {vector.storage!r} is not one that Delta describes", 0)
