"""split_envelopes and group_by_schema: the parts of many messages, where decode_envelope finds them."""

from __future__ import annotations

from types import ModuleType

from headstream.replicate.codec import Envelope, encode_envelope
from headstream.replicate.codec.avro.rows import compile_rows, decode_rows
from headstream.replicate.codec.avro.schema import parse_schema
from headstream.replicate.codec.avro.values import encode_value
from headstream.replicate.codec.envelope_parts import Envelopes
from tests.support import kernels
from tests.support.replicate.replicate_rows import HEADERS, ROW, SCHEMA, offsets_of, records_of

START = b"atMSG\x04DT"
ID = "8FB9D3C10EA4B25751DF9CC8318F0A02"
envelopes = kernels.fixture("headstream.replicate.codec.envelopes")


def split(envelopes: ModuleType, *messages: bytes) -> tuple[Envelopes, bytes]:
    data = b"".join(messages)
    return envelopes.split_envelopes(offsets_of(messages), data), data


def test_group_by_schema_gives_the_messages_of_each_id_in_their_order(envelopes: ModuleType) -> None:
    ids = [None, "", "short", ID, ID[:-1] + "3", "x" * 8, ID + "0", *(f"{number:032X}" for number in range(300))]
    messages = [Envelope("DT", b"r", None, ids[(number * 7) % len(ids)]) for number in range(900)]
    messages += [Envelope("MD", b"r", None, ID, "{}"), Envelope("DT", b"r", None, ID, "{}"), Envelope("DT", b"r", None, ID)]
    encoded = [*map(encode_envelope, messages), START, b'{"a": 1}']
    found, data = split(envelopes, *encoded)
    expected: dict[bytes, list[int]] = {}
    for row, envelope in enumerate(messages):
        if envelope.type == "DT" and envelope.schema_id is not None and envelope.schema is None:
            expected.setdefault(envelope.schema_id.encode(), []).append(row)
    groups = envelopes.group_by_schema(found, data)
    assert {schema_id: list(rows) for schema_id, rows in groups.items()} == expected
    assert list(groups) == list(expected)
    alone = [
        row for row, envelope in enumerate(messages) if envelope.type == "DT" and (envelope.schema_id is None or envelope.schema)
    ]
    assert envelopes.ungrouped_rows(found) == alone


def test_groups_are_what_decode_rows_takes(envelopes: ModuleType) -> None:
    row = encode_value(parse_schema(SCHEMA), {"data": ROW, "beforeData": None, "headers": HEADERS})
    messages = [Envelope("DT", row if number % 3 else row[:-1], None, f"{number % 2:032X}") for number in range(12)]
    found, data = split(envelopes, *map(encode_envelope, messages))
    plan = compile_rows(SCHEMA)
    seen = []
    for rows in envelopes.group_by_schema(found, data).values():
        decoded = decode_rows(plan, data, found.payload_start, found.payload_end, rows)
        assert len(records_of(plan, decoded)) == decoded.count
        seen += [*decoded.rows, *(index for index, _ in decoded.faults)]
        assert all(index % 3 == 0 for index, _ in decoded.faults)
    assert sorted(seen) == list(range(12))
