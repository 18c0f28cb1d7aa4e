# The numbers of faults.py for compiled code.

cdef enum:
    MESSAGE_CUT = 1
    HEADERS_CUT = 2
    PAYLOAD_CUT = 3
    HEADER_CUT = 4
    KEY_CUT = 5
    VALUE_CUT = 6
    VALUE_WIDTH = 7
    KEY_LENGTH = 8
    KEY_TEXT = 9
    VALUE_TEXT = 10
    VALUE_BOOL = 11
    KIND_ZERO = 12
    CHECKSUM = 13
    KEY_SIZE = 20
    KIND = 21
    VALUE_SIZE = 22
    VALUES_TOTAL = 23
    PAYLOAD_EMPTY = 24
    PAYLOADS_TOTAL = 25
    OFFSETS = 30
    RESERVED = 31
