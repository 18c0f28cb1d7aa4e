"""Unit tests of headstream.replicate.decoding.mask_orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headstream.replicate.codec import ColumnMetadata, data_message
from headstream.replicate.run.status import describe_orders
from tests.support.replicate.replicate_messages import (
    COLUMNS,
    make_change,
    make_decoder,
    make_table,
    raw_messages,
    reasons_of,
    rows_of,
)
from tests.unit.replicate.decoding.test_table_input import MANY, WIDE, partial


@pytest.mark.parametrize("order", ["little", "big"])
def test_decoder_judges_the_byte_order_of_masks_by_the_rows_and_keeps_it(tmp_path: Path, order: str) -> None:
    decoded = make_decoder(tmp_path, WIDE).decode(raw_messages([partial(5, "c2", "c9", order=order)]))
    assert [row["_hs_columns"] for row in rows_of(decoded)] == [b"\x03\x01"]
    assert [f"{order}-endian" in finding for finding in decoded.findings] == [True]
    # What proves nothing by itself (bits of both orders fit) is read by what is known.
    unclear = data_message(
        WIDE, make_change(6, "UPDATE", data={"id": 6}, column_mask=b"\x01\x02" if order == "little" else b"\x02\x01")
    )
    again = make_decoder(tmp_path, WIDE).decode(raw_messages([unclear]))
    assert [row["_hs_columns"] for row in rows_of(again)] == [b"\x01\x02"]
    assert again.findings == {}


def test_decoder_keeps_a_byte_order_for_each_task(tmp_path: Path) -> None:
    other = make_table(*MANY, schema_id="F" * 32, table="other", task="other")
    value = partial(5, "c9", order="big", task="other").replace(b"E" * 32, b"F" * 32)
    decoded = make_decoder(tmp_path, WIDE, other).decode(raw_messages([partial(5, "c9"), value]))
    assert [row["_hs_columns"] for row in rows_of(decoded)] == [b"\x01\x01", b"\x01\x01"]


def test_decoder_refuses_masks_that_fit_the_other_byte_order_only(tmp_path: Path) -> None:
    decoder = make_decoder(tmp_path, WIDE, settings={"mask_order": "little"})
    decoded = decoder.decode(raw_messages([partial(5, "c2"), partial(6, "c2", order="big")]))
    assert [row["id"] for row in rows_of(decoded)] == [5]
    assert "mask" in reasons_of(decoded)[1]


def test_decoder_reports_a_value_in_a_column_that_no_byte_order_of_the_mask_has(tmp_path: Path) -> None:
    value = data_message(make_table(), make_change(1, "UPDATE", column_mask=b"\x01"))
    decoded = make_decoder(tmp_path, make_table()).decode(raw_messages([value]))
    assert len(rows_of(decoded)) == 1
    assert list(decoded.findings.values()) == [1]


FLOATS = make_table(
    COLUMNS[0], ColumnMetadata("ratio", 2, "REAL8"), *(ColumnMetadata(f"c{at}", at, "INT4") for at in range(3, 17))
)


def moved(number: int, change_mask: bytes, old_ratio: float = float("nan"), **new: Any) -> bytes:
    """An update with both images in full, in which some columns are new."""
    before: dict[str, Any] = {"id": 1, "ratio": old_ratio} | {f"c{at}": 0 for at in range(3, 17)}
    change = make_change(number, "UPDATE", data=before | new, before=before, change_mask=change_mask, column_mask=b"\xff\xff")
    return data_message(FLOATS, change)


@pytest.mark.parametrize(("old", "new"), [(float("nan"), float("nan")), (0.0, -0.0)])
def test_decoder_decides_no_byte_order_by_a_value_that_the_source_takes_for_the_same(
    tmp_path: Path, old: float, new: float
) -> None:
    # The bit is that of the column c10, which got the value that it had; turned, it would be that of the double.
    values = [moved(number, b"\x00\x02", old, ratio=new) for number in range(1, 4)]
    decoder = make_decoder(tmp_path, FLOATS)
    decoded = decoder.decode(raw_messages(values))
    assert (len(rows_of(decoded)), decoder.orders.find(FLOATS.lineage), decoded.findings) == (3, None, {})


def test_decoder_decides_by_change_masks_when_two_changes_name_exactly_what_differs(tmp_path: Path) -> None:
    decoder = make_decoder(tmp_path, FLOATS)
    first = moved(1, b"\x08\x00", c12=5)  # bit 11 of a big-endian mask
    decoder.decode(raw_messages([first, first]))
    assert decoder.orders.find(FLOATS.lineage) is None, "one change, sent twice"
    decoder.decode(raw_messages([moved(2, b"\x10\x00", c13=5)]))
    assert decoder.orders.find(FLOATS.lineage) == "big"
    evidence = {"order": "big", "rows": 2, "by": "changes whose change mask has exactly the columns that differ"}
    assert decoder.orders.evidence(FLOATS.lineage) == evidence | {"column_mask": "ffff", "change_mask": "1000"}
    again = make_decoder(tmp_path, FLOATS)
    assert again.orders.evidence(FLOATS.lineage) == decoder.orders.evidence(FLOATS.lineage)
    again.schema_store.scan()
    told = {"server": "s", "task": "t", "order": "big", "evidence": decoder.orders.evidence(FLOATS.lineage)}
    assert describe_orders(again.orders, again.schema_store) == [told]


def test_decoder_decides_no_byte_order_when_changes_speak_for_both(tmp_path: Path) -> None:
    decoder = make_decoder(tmp_path, FLOATS)
    values = [moved(1, b"\x08\x00", c12=5), moved(2, b"\x10\x00", c13=5), moved(3, b"\x00\x08", c12=5)]
    decoder.decode(raw_messages(values))
    assert decoder.orders.find(FLOATS.lineage) is None
