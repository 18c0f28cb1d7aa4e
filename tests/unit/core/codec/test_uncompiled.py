"""Unit tests of headstream.core.codec.uncompiled."""

from __future__ import annotations

import pytest

from headstream.core.codec import mode
from tests.support import kernels


@pytest.mark.parametrize(
    "name", ["batch.stored.stamp", "batch.stored.scan", "batch.to_columns.columns", "batch.from_columns.pack", "batch.checksum"]
)
def test_the_interpreted_variant_of_a_kernel_runs_from_its_source(name: str) -> None:
    module = kernels.interpreted(name)
    assert kernels.name_of(module) == "interpreted"
    assert module.__file__ is not None
    assert module.__file__.endswith(".py")
    if mode.compiled():
        assert module.cython.__name__ == "headstream.core.codec.uncompiled"
        assert kernels.variants(name)[0] is not module
