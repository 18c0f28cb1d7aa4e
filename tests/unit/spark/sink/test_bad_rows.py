"""Unit tests of headstream.spark.sink.bad_rows."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headstream.errors import HeadstreamError
from headstream.spark.sink.packing import BadRow, Packed
from tests.unit.spark.sink.test_packing import IGGY, decode, pack


def test_bad_rows_are_found_among_good_ones_in_order() -> None:
    values = ["v" * 256 if number in (0, 37, 38, 99) else "v" for number in range(100)]
    batch = {"payload": pa.array([str(number) for number in range(100)]), "note": pa.array(values)}
    found = pack(batch, headerColumns="note")
    bad = [each for each in found if isinstance(each, BadRow)]
    assert [each.row for each in bad] == [0, 37, 38, 99]
    assert all("header value of 256 bytes" in str(each.reason) for each in bad)
    good = [int(m.payload or b"") for each in found if isinstance(each, Packed) for m in decode(each, IGGY)]
    assert good == [number for number in range(100) if number not in (0, 37, 38, 99)]


@pytest.mark.parametrize(
    ("columns", "options", "what"),
    [
        ({"n": pa.array([256], pa.int32())}, {"headerColumns": "n uint8"}, "does not fit uint8"),
        ({"n": pa.array([-1], pa.int32())}, {"headerColumns": "n uint8"}, "does not fit uint8"),
        ({"n": pa.array([-1], pa.int64())}, {"headerColumns": "n uint128"}, "does not fit uint128"),
        ({"id": pa.array([b"short"])}, {}, "must have values of 16 bytes"),
        ({"partition": pa.array([4], pa.int64())}, {}, "partition has values from 4"),
        ({"partition": pa.array([1 << 40], pa.int64())}, {}, "out of bounds|not in range"),
        ({"headers": pa.array([b"\x06\0\0\0hs.key\x01\0\0\0\0"])}, {}, "reserved header"),
    ],
)
def test_a_value_that_cannot_be_sent_is_its_rows_fault(columns: dict[str, pa.Array], options: dict[str, str], what: str) -> None:
    [found] = pack({"payload": pa.array(["p"]), **columns}, IGGY, **options)
    assert isinstance(found, BadRow)
    assert found.row == 0
    with pytest.raises(HeadstreamError, match=what):
        raise found.reason
