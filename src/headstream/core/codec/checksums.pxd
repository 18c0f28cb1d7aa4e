# C declarations for checksums.h and xxh3.h; the Python equivalent is uncompiled_checksums.py.

cdef extern from "checksums.h" nogil:
    unsigned int crc32_from "hs_crc32" (const unsigned char *p, long long at, long long size, unsigned int value)
    unsigned int crc32c_from "hs_crc32c" (const unsigned char *p, long long at, long long size, unsigned int value)
    unsigned int copy_crc32 "hs_copy_crc32" (unsigned char *target, long long at, const unsigned char *source, long long start,
                                             long long size)
    int crc_level "hs_crc_level"

cdef extern from "xxh3.h" nogil:
    unsigned long long xxh3_from "hs_xxh3" (const unsigned char *p, long long at, long long size)
