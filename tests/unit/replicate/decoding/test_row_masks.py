"""Unit tests of headstream.replicate.decoding.row_masks."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from headstream.replicate.codec import Envelope, encode_envelope
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import encode_value
from tests.support.replicate.replicate_messages import (
    make_decoder,
    make_table,
    raw_messages,
    reasons_of,
    rows_of,
)


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
