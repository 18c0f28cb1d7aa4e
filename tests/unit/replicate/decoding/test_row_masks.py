"""Masks whose byte order is not decided yet."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

from headstream.replicate.codec import ColumnMetadata
from headstream.replicate.decoding.mask_orders import MaskOrders
from headstream.replicate.decoding.row_masks import settle_masks
from headstream.replicate.schemas.schemas import table_schema
from tests.support.replicate.replicate_messages import make_table


def compute_nothing() -> NoReturn:
    raise AssertionError("the values of a batch are looked at, although no order can follow from them")


@pytest.mark.parametrize(("count", "mask"), [(4, b"\x0f"), (8, b"\xff"), (16, b"\xff\xff"), (24, b"\xff\xff\xff")])
def test_settle_masks_looks_at_no_values_when_every_mask_is_the_same_in_both_orders(
    tmp_path: Path, count: int, mask: bytes
) -> None:
    columns = [
        ColumnMetadata(f"c{number}", number, "INT4", primary_key_position=int(number == 1)) for number in range(1, count + 1)
    ]
    schema = table_schema(make_table(*columns))
    masks = pa.array([mask, mask, None], pa.binary())
    orders = MaskOrders(tmp_path)
    sequences = pa.array(["1", "2", "3"])
    found = settle_masks(
        schema, masks, masks, values=compute_nothing, differences=compute_nothing, sequences=sequences, orders=orders
    )
    assert (found.faults, found.findings, orders.find(schema.metadata.lineage)) == ({}, {}, None)
