"""Byte positions in the data of the kernels: messages, headers, index entries, Iggy's batches, scratch buffers.

    stored   offset u64 | state u8 | timestamp u64 | id u128 | crc32(payload) u32
             | headers_size u32 | headers | payload_size u32 | payload
    sent     id u128 | headers_size u32 | headers | payload_size u32 | payload
    header   key_size u32 | key | kind u8 | value_size u32 | value
    entry    position u32 | size u32 | relative offset u32 | count u32 | timestamp u64 | crc32c u32 | check u32

positions() computes each position from the sizes of the fields before it. layout.pxd holds the same numbers for compiled code.
OVERHEAD and SENT_OVERHEAD are the sizes of a stored and of a sent message without headers and payload. A name with `_LAST` is the
position of the last bytes of a reserved key, because a kernel compares a key as two numbers.
"""

from __future__ import annotations

import re
import struct


def positions(fields: str) -> tuple[int, ...]:
    """Return the start position of each field and the end position of the last field.

    Args:
        fields: Little-endian formats of the struct module, separated by spaces; padding (`4x`) has no position.
    """
    at, begins = 0, []
    for field in fields.removeprefix("<").split():
        if not re.fullmatch(r"\d*x", field):
            begins.append(at)
        at += struct.calcsize(f"<{field}")
    return (*begins, at)


# A message without headers: the size of its payload follows directly.
_, STATE, TIMESTAMP, ID, CHECKSUM, HEADERS_SIZE, HEADERS, OVERHEAD = positions("Q B Q 16s I I I")
_, SENT_HEADERS_SIZE, SENT_HEADERS, SENT_OVERHEAD = positions("16s I I")
_, ID_HIGH, ID_BYTES = positions("Q Q")
_, ENTRY_SIZE, ENTRY_OFFSET, ENTRY_COUNT, ENTRY_TIMESTAMP, ENTRY_CHECKSUM, ENTRY_CHECK, ENTRY_BYTES = positions("I I I I Q I I")

# Between the key and the value of a header (kind, value_size); all of a header but key and value; the reserved headers
# hs.key, hs.null and hs.timestamp.
_, _, VALUE_HEAD = positions("B I")
_, _, _, HEADER_OVERHEAD = positions("I B I")
_, KEY_NAME, KEY_LAST, KEY_KIND, KEY_SIZE, KEY_VALUE = positions("I 4s 2s B I")
_, NULL_NAME, NULL_LAST, NULL_KIND, NULL_SIZE, NULL_VALUE, NULL_BYTES = positions("I 3s 4s B I B")
_, TIME_NAME, TIME_LAST, TIME_KIND, TIME_SIZE, TIME_VALUE, TIME_BYTES = positions("I 8s 4s B I Q")

# Iggy's batches (iggy_batches.py): the header of a batch, the head of a frame, the fields that a batch's checksum covers before
# the checksums of its frames, and the encoding notes for each batch.
_, BATCH_OFFSET, BATCH_TIME, BATCH_ORIGIN, BATCH_LENGTH, BATCH_CHECKSUM, BATCH_COUNT, BATCH_ZEROS, BATCH_BYTES = positions(
    "Q Q Q Q Q Q I 204s"
)
_, FRAME_ID, FRAME_OFFSET, FRAME_ORIGIN, FRAME_HEADERS, FRAME_PAYLOAD, FRAME_ZEROS, FRAME_BYTES = positions("Q 16s I I I I Q")
_, SUMMED_COUNT, SUMMED_FRAMES = positions("40s I")
_, GROUP_COUNT, GROUP_ORIGIN, GROUP_FRAMES, GROUP_BYTES = positions("q q Q q")

# A Kafka record batch (kafka/batches.py): its length counts the bytes from RECORDS_EPOCH on, its checksum covers the bytes from
# RECORDS_CHECKED on.
_, RECORDS_LENGTH, RECORDS_EPOCH, RECORDS_MAGIC, RECORDS_CHECK, RECORDS_CHECKED, *_rest, RECORDS_HEAD = positions(
    "q i i b I h i q q q h i i"
)

# A filter's program and the types of its values (stored/filter_scan.py), and the counts of a header's values
# (stored/summaries.py).
_, PROGRAM_VALUES, PROGRAM_STEPS, PROGRAM_FIELDS, PROGRAM_BYTES = positions("H H H H")
_, VALUE_SIGN, VALUE_SOURCE, VALUE_LOW, VALUE_HIGH, VALUE_TEXT, VALUE_BYTES = positions("B B B 5x Q Q 8s")
_, STEP_TEST, STEP_FIRST, STEP_SECOND, STEP_COUNT, STEP_BYTES = positions("B B H H H")
_, NAME_SIZE, NAME_BYTES = positions("I I")
NULL, WHOLE, FLOAT, BOOLEAN, TEXT, OPAQUE = range(6)
_, COUNT_OPAQUE, COUNT_FALSE, COUNT_TRUE, COUNT_WHOLES, COUNT_FLOATS, COUNT_NANS, COUNT_TEXTS, COUNT_LISTED, COUNT_HASHES = (
    positions("Q Q Q Q Q Q Q Q Q")
)

# A run of bytes: its begin and its end (or size). The parts of a message to be written (from_columns/pack.py). An entry of
# hs.kinds (kafka/kinds.py). The window of noted ids (stored/repeats.py) before its ids. A slot of the key table
# (stored/compact.py): a hash, and the offset of the newest message with it plus one.
_, RUN_END, RUN_BYTES = positions("q q")
PLAN_PAYLOAD, PLAN_PAYLOAD_SIZE, PLAN_KEY, PLAN_KEY_SIZE, PLAN_BLOCK, PLAN_BLOCK_SIZE, PLAN_BYTES = positions("q q q q q q")
_, KINDS_EQUALS, KINDS_BEGIN, KINDS_END, KINDS_COUNT, KINDS_BYTES = positions("q q q q q")
_, WINDOW_NOTED, WINDOW_SEED, WINDOW_IDS = positions("Q Q 16s")
_, SLOT_HASH_HIGH, SLOT_UNTIL, SLOT_BYTES = positions("Q Q Q")

# Notes: the at, need and have of a fault, then the kernel's results, 64 bits each: of a walk and of created index rows; of a
# check of sends, which continues later; of listed header blocks; of a filter's scan.
_, _, _, NOTED_COUNT, NOTED_END, NOTED_LAST, _ = positions("q q q q q q")
MADE_ROWS_END, MADE_UNTIL = NOTED_COUNT, NOTED_LAST
*_rest, CHECK_ROW, CHECK_START, CHECK_AT, CHECK_MESSAGES, CHECK_CRC, CHECK_BYTES = positions("q q q q q q q q q q q")
_, _, _, BLOCKS_COUNT, BLOCKS_HEADERS, BLOCKS_SIZE, BLOCKS_MOST, BLOCKS_BYTES = positions("q q q q q q q")
*_rest, SCAN_AT, SCAN_RUNS, SCAN_COUNT, SCAN_TAKEN, SCAN_SCANNED, SCAN_FAILED, SCAN_LAST, SCAN_BYTES = positions(
    "q q q q q q q q q Q"
)
