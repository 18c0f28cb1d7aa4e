"""The hot path: batches of messages as bytes, without a Python object a message.

A batch is messages back to back, little-endian. What a client sends, and what is stored and polled:

    sent     id u128 | headers_length u32 | headers | payload_length u32 | payload
    stored   offset u64 | state u8 | timestamp u64 | id u128 | crc32(payload) u32
             | headers_length u32 | headers | payload_length u32 | payload
    headers  (key_length u32 | key | kind u8 | value_length u32 | value)*

stamp makes stored messages of sent ones, scan finds its way in stored ones, columns makes Arrow-layout
columns of them, pack makes sent messages of columns.
"""
