# The numbers of layout.py for compiled code.

cdef enum:
    STATE = 8
    TIMESTAMP = 9
    ID = 17
    CHECKSUM = 33
    HEADERS_SIZE = 37
    HEADERS = 41
    OVERHEAD = 45
    SENT_HEADERS_SIZE = 16
    SENT_HEADERS = 20
    SENT_OVERHEAD = 24
    ENTRY_SIZE = 4
    ENTRY_OFFSET = 8
    ENTRY_COUNT = 12
    ENTRY_TIMESTAMP = 16
    ENTRY_CHECKSUM = 24
    ENTRY_CHECK = 28
    ENTRY_BYTES = 32
