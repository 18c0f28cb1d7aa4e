"""The kernels: process batches of messages as bytes, without a Python object per message.

A batch consists of contiguous messages, little-endian, in the form that a client sends or in the form that is stored and polled:

    sent     id u128 | headers_length u32 | headers | payload_length u32 | payload
    stored   offset u64 | state u8 | timestamp u64 | id u128 | crc32(payload) u32
             | headers_length u32 | headers | payload_length u32 | payload
    headers  (key_length u32 | key | kind u8 | value_length u32 | value)*

stamp converts sent messages to stored messages, scan iterates over stored messages, columns converts stored messages to columns
in Arrow's layout, and pack converts columns to sent messages.
"""
