"""Descriptors of deletion vectors, with the examples of the Delta protocol's text."""

from __future__ import annotations

import numpy as np
import pytest

from headstream.errors import DecodeError
from headstream.replicate.storage.deletion_vectors import DeletionVector


@pytest.mark.parametrize(
    ("storage", "value", "path"),
    [
        ("u", "ab^-aqEH.-t@S}K{vb[*k^", "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("u", "^-aqEH.-t@S}K{vb[*k^", "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"),
        ("p", "s3://mytable/a%20b/deletion_vector_d2c6.bin", "/a b/deletion_vector_d2c6.bin"),
        ("p", "file:///lake/deletion_vector_d2c6.bin", "/lake/deletion_vector_d2c6.bin"),
    ],
)
def test_path_names_the_file_of_a_vector(storage: str, value: str, path: str) -> None:
    vector = DeletionVector(storage, value, 4, 40, 6)
    assert (vector.path, vector.inline) == (path, None)


def test_inline_returns_the_vector_that_a_descriptor_contains() -> None:
    action = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "sizeInBytes": 40}
    vector = DeletionVector.from_action(action | {"cardinality": 6})
    assert vector.path is None
    assert vector.inline is not None
    assert vector.inline.hex().startswith("6439d3d0")  # the magic number of a bitmap
    assert np.frombuffer(vector.inline[-12:], "<u2").tolist() == [3, 4, 7, 11, 18, 29]


@pytest.mark.parametrize(("storage", "value"), [("u", "short"), ("x", "^-aqEH.-t@S}K{vb[*k^"), ("u", "~-aqEH.-t@S}K{vb[*k^")])
def test_path_refuses_a_descriptor_that_delta_does_not_describe(storage: str, value: str) -> None:
    with pytest.raises(DecodeError, match="deletion vector"):
        _ = DeletionVector(storage, value, 4, 40, 6).path
