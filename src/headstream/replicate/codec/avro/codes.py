"""Constants shared by the Python and the compiled code of Avro and envelopes; the compiled code gets them from avro_codes.h.

A task is the working memory of one call of codec.avro: notes, then a table of steps, one per column in the order of their
bytes, and one before the columns of each section that is a union. All are little-endian 64-bit numbers; the names here are
byte positions in them:

    notes   code | at | need | have | step of a fault | good rows so far | place of before_present | end of the steps
            | values that can still be skipped in this row
    step    kind | branches | null_index | low | high | extent | validity | values | starts | texts

    branches     of the union around the value: 0 no union, 1, or 2; null_index is the null one of two, else -1
    low, high    least and largest value of an int, long or enum; of a decimal the halves of 10^precision
    extent       of a value without a varint before it: its bytes; of a section in a union: how many steps belong to it;
                 of a skipped field: place of its type
    validity     place of the validity bits, -1 for a column without nulls
    values       place of the numbers, or of the offsets of texts; of a section: 1 where its presence is noted
    starts       place of where texts begin in the data
    texts        place of the texts

After the steps are the types of the skipped fields, each a kind and its operands:

    INT32, INT64 low | high     FIXED size     RECORD, UNION count | places of the types inside     ARRAY, MAP place of the item's
"""

from __future__ import annotations

from typing import Final

__all__: list[str] = []  # used as avro_codes.NAME

# Kinds of steps. Those up to DECIMAL begin with a varint, which from TEXT on is a length.
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
# Further kinds, of skipped fields only.
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
# Of a type.
FIRST: Final = 8
SECOND: Final = 16

# Most values read or skipped in one message: records and nulls take no bytes, so the message's size does not bound them.
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

# What a message is, by its first bytes: codec.envelopes.
FORM_NEITHER: Final = 0
FORM_METADATA: Final = 1
FORM_DATA: Final = 2
FORM_JSON: Final = 3
FORM_REGISTRY: Final = 4
FORM_BROKEN: Final = 5
FORM_UNKNOWN: Final = 6
