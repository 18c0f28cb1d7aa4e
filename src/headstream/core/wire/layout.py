"""Byte positions in the frames and bodies that the fast path reads and writes. For frames of protocol 0.11 see vsr/frames.py.

    request   length u32 | code u32 | body                 length is the size of code and body
    response  status u32 | length u32 | body               length is the size of the body
    poll      ... | flag u8 | partition u32 | kind u8 | value u64 | count u32 | auto_commit u8     the flag only in protocol 0.11
    polled    partition u32 | newest offset u64 | count u32 | messages
    numbered  stream | topic | partition u32 | producer u64 | epoch u32 | sequence u32 | messages
    appended  offset u64 | time u64 | count u32 | is_repeat u32

Protocol 0.11 also has a send, shown from the end of the topic's name on, and the reply to a send:

    send      kind u8 | length u8 | partition u32 | count u32 | batch
    sent      count u32 | stream u32 | topic u32 | partition u32 | offset u64

layout.pxd holds the same numbers for compiled code.
"""

from __future__ import annotations

from headstream.core.codec.batch.layout import positions

_, HIGH_HALF, _ = positions("Q Q")
_, FRAME_CODE, FRAME_BODY = positions("I I")
_, POLL_PARTITION, POLL_NUMBERS = positions("B I")
_, POLL_VALUE, POLL_COUNT, POLL_COMMIT, POLL_BYTES = positions("B Q I B")
_, POLLED_NEWEST, POLLED_COUNT, POLLED_BYTES = positions("I Q I")
_, NUMBERED_PRODUCER, NUMBERED_EPOCH, NUMBERED_SEQUENCE, NUMBERED_BYTES = positions("I Q I I")
_, APPENDED_TIME, APPENDED_COUNT, APPENDED_REPEAT, APPENDED_BYTES = positions("Q Q I I")
_, SEND_LENGTH, SEND_PARTITION, SEND_COUNT, SEND_BYTES = positions("B B I I")
_, SENT_STREAM, SENT_TOPIC, SENT_PARTITION, SENT_OFFSET, SENT_BYTES = positions("I I I I Q")
