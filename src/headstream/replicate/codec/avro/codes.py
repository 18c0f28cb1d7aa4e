"""Constants of the Avro and envelope kernels; compiled code reads the same constants from avro_codes.h.

A task is the working memory of one call of codec.avro: notes, then a table of steps. There is one step per column, in the order
of the columns' bytes, and one before the columns of a section that is a union. All numbers are little-endian, 64 bits; names in
this module are byte positions:

    notes   code | at | need | have | step of a fault | good rows so far | position of before_present | end of the steps
            | values that can still be skipped in this row
    step    kind | branches | null_index | low | high | extent | validity | values | starts | texts

    branches     number of branches of the union around the value (0: no union, 1, 2); null_index: index of null, or -1
    low, high    minimum and maximum of an int, long or enum; the halves of 10^precision of a decimal
    extent       size of a value without a leading varint; number of steps of a section in a union;
                 position of the type of a skipped field
    validity     position of the validity bits; -1 for a column without nulls
    values       position of the numbers or of the offsets of strings; of a section: 1 if its presence is recorded
    starts       position of the start positions of strings in the data
    texts        position of the strings

The types of skipped fields follow the steps; a type is a kind with operands:

    INT32, INT64 low | high     FIXED size     RECORD, UNION count | inner positions     ARRAY, MAP position of the item type
"""

from __future__ import annotations

from typing import Final

__all__: list[str] = []  # used as avro_codes.NAME

# Kinds of steps. Values of kinds up to DECIMAL begin with a varint; for TEXT, BINARY and DECIMAL, the varint is a length.
INT32: Final = 0
INT64: Final = 1
TEXT: Final = 2
BINARY: Final = 3
DECIMAL: Final = 4
FLOAT: Final = 5
DOUBLE: Final = 6
BOOLEAN: Final = 7
FIXED: Final = 8
FIXED_DECIMAL: Final = 9
SECTION: Final = 10
SKIPPED: Final = 11
# Kinds of skipped fields only.
RECORD: Final = 12
UNION: Final = 13
ARRAY: Final = 14
MAP: Final = 15
NOTHING: Final = 16

NOTE_AT: Final = 8
NOTE_NEED: Final = 16
NOTE_HAVE: Final = 24
NOTE_STEP: Final = 32
NOTE_COUNT: Final = 40
NOTE_PRESENT: Final = 48
NOTE_END: Final = 56
NOTE_SPARE: Final = 64
NOTES_SIZE: Final = 72

BRANCHES: Final = 8
NULL_INDEX: Final = 16
LOW: Final = 24
HIGH: Final = 32
EXTENT: Final = 40
VALIDITY: Final = 48
VALUES: Final = 56
STARTS: Final = 64
TEXTS: Final = 72
STEP_SIZE: Final = 80
# Operands of the type of a skipped field.
FIRST: Final = 8
SECOND: Final = 16

# Maximum number of values in one message: records and nulls take no bytes, so the message's size does not limit their number.
SPARE_VALUES: Final = 65_536

# Faults of a row.
CUT: Final = 1
LONG_VARINT: Final = 2
BRANCH: Final = 3
RANGE: Final = 4
LENGTH: Final = 5
NOT_UTF8: Final = 6
NOT_BOOLEAN: Final = 7
DECIMAL_SIZE: Final = 8
DECIMAL_DIGITS: Final = 9
LEFT_OVER: Final = 10
ENDLESS: Final = 11

# Forms of a message, by its first bytes; see codec.envelopes.
FORM_NEITHER: Final = 0
FORM_METADATA: Final = 1
FORM_DATA: Final = 2
FORM_JSON: Final = 3
FORM_REGISTRY: Final = 4
FORM_BROKEN: Final = 5
FORM_UNKNOWN: Final = 6
