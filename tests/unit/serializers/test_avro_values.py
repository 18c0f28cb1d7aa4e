"""Unit tests of headstream.serializers.avro_values."""

from __future__ import annotations

import json

import fastavro
import pytest
from fastavro.schema import fingerprint

import headstream as hs
from headstream import serializers
from tests.unit.serializers.test_serializers import SCHEMA

LATER = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "paid", "type": "boolean", "default": False}]}


def test_avro_reads_earlier_schemas_that_are_known_and_refuses_others() -> None:
    earlier, later = serializers.avro(json.dumps(SCHEMA)), serializers.avro(LATER, known=[SCHEMA])
    payload = earlier.encode({"number": 1, "what": "a"})
    assert later.decode(payload) == {"number": 1, "what": "a", "paid": False}
    with pytest.raises(hs.InvalidInputError, match="is unknown"):
        serializers.avro(LATER).decode(payload)
    with pytest.raises(hs.InvalidInputError, match="1 bytes follow"):
        later.decode(payload + b"x")
    with pytest.raises(hs.InvalidInputError, match="not a valid Avro schema"):
        serializers.avro("{")


def test_avro_writes_the_single_object_encoding_of_the_specification() -> None:
    # The specification's example: the fingerprint of "int" is 0x7275d51a3f395c8f, written little-endian.
    assert fingerprint('"int"', "CRC-64-AVRO") == "8f5c393f1ad57572"
    assert serializers.avro('"int"').encode(-1) == bytes.fromhex("c301 8f5c393f1ad57572 01")
    assert fastavro.__version__
