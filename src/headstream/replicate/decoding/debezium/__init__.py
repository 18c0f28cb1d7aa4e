"""Debezium's messages: an envelope with Kafka Connect types, in JSON or Avro.

    value    {"schema": Connect's schema, "payload": envelope}     JSON with schemas; without schemas, only the envelope
    envelope before, after: null or the row | source: the position | op | ts_ms | transaction: null or id, total_order
    op       c create, u update, d delete, r read by a snapshot, t truncate, m message of the log
    key      the columns of the primary key; null for truncations and tables without a key
    flattened   the row's columns, and fields of the envelope and of `source` with a prefix (ExtractNewRecordState)
    headers  for a key update: __debezium.newkey at the deletion, __debezium.oldkey at the insertion

`connect` converts columns and values, and `order` determines the sequence of changes. Rows are decoded to the same columns as
Replicate's rows (decoding/debezium/rows.py), so all later steps of the pipeline are the same.
"""
