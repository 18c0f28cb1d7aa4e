"""Replicate's messages in Avro and JSON: envelopes, metadata, data, masks and types.

    Kafka value    envelope  b"atMSG" | type "MD" or "DT" | headers | messageSchemaId | messageSchema | message
    MD message     schemaId, lineage, tableStructure.tableColumns.<column>, dataSchema
    DT message     data.<column>, beforeData.<column> or null, headers (operation, changeSequence, masks, ...)

A metadata message describes one version of a table and contains the Avro schema of its data messages. A data message refers to
this version by the schema id. This package decodes single messages to Python values; `headstream.replicate.codec.envelopes` and
`headstream.replicate.codec.avro.rows` decode batches of rows. Debezium's messages are in decoding/debezium.
"""

from headstream.replicate.codec.data import Change, data_message, data_schema, decode_data
from headstream.replicate.codec.envelope import Envelope, decode_envelope, encode_envelope
from headstream.replicate.codec.masks import decode_mask, encode_mask, mask_from_hex, mask_to_hex
from headstream.replicate.codec.metadata import ColumnMetadata, Lineage, TableMetadata, decode_metadata, metadata_message
from headstream.replicate.codec.types import target_type

__all__ = [
    "Change",
    "ColumnMetadata",
    "Envelope",
    "Lineage",
    "TableMetadata",
    "data_message",
    "data_schema",
    "decode_data",
    "decode_envelope",
    "decode_mask",
    "decode_metadata",
    "encode_envelope",
    "encode_mask",
    "mask_from_hex",
    "mask_to_hex",
    "metadata_message",
    "target_type",
]
