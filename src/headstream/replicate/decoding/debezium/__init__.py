"""Debezium's messages: an envelope in Kafka Connect's types, in JSON or in Avro.

    value    {"schema": Connect's schema, "payload": envelope}     JSON with schemas; without them only the envelope
    envelope before, after: null or the row | source: the position | op | ts_ms | transaction: null or id, total_order
    op       c created, u updated, d deleted, r read by a snapshot, t truncated, m a message of the log
    key      the columns of the primary key; null for a truncation and for tables without a key
    flattened   the columns of the row, and fields of the envelope and of `source` with a prefix (ExtractNewRecordState)
    headers  __debezium.newkey at the deletion, __debezium.oldkey at the insertion, of a row whose key has changed

`connect` is about columns and their values, `order` about the sequence of changes. Rows become the same decoded columns as
Replicate's (decoding/debezium/rows.py), and all further steps are the same pipeline.
"""
