"""Unit tests of headstream.replicate.decoding.row_masks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pyarrow as pa
import pytest

from headstream.replicate.codec import ColumnMetadata, Envelope, encode_envelope
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import encode_value
from headstream.replicate.decoding.mask_orders import MaskOrders
from headstream.replicate.decoding.row_masks import resolve_masks
from headstream.replicate.schemas.schemas import table_schema
from tests.support.replicate.replicate_messages import make_decoder, make_table, raw_messages, reasons_of, rows_of


def test_decoder_refuses_a_row_when_its_mask_is_not_bytes(tmp_path: Path) -> None:
    table = make_table()
    schema = json.loads(table.data_schema)
    headers = {header["name"]: header for header in schema["fields"][2]["type"]["fields"]}
    headers["columnMask"]["type"] = ["null", "string"]
    table = replace(table, data_schema=json.dumps(schema))
    record = {"data": {"id": 1, "name": "x"}, "beforeData": None}
    sent = {"operation": "INSERT", "changeSequence": "1", "timestamp": "", "streamPosition": "", "transactionId": ""}
    avro = parse_schema(table.data_schema)
    values = [
        encode_envelope(Envelope("DT", encode_value(avro, {**record, "headers": sent | mask}), None, table.schema_id))
        for mask in ({}, {"columnMask": "03"})
    ]
    decoded = make_decoder(tmp_path, table).decode(raw_messages(values))
    assert (len(rows_of(decoded)), reasons_of(decoded)) == (1, {1: "columnMask is string, not bytes"})


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
    found = resolve_masks(
        schema, masks, masks, values=compute_nothing, differences=compute_nothing, sequences=sequences, orders=orders
    )
    assert (found.faults, found.findings, orders.find(schema.metadata.lineage)) == ({}, {}, None)
