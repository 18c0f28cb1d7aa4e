# C declarations for text_primitives.h; the Python equivalent is uncompiled_text_primitives.py.

cdef extern from "text_primitives.h" nogil:
    double parse_float "hs_parse_float" (const unsigned char *p, long long at, long long size)
    long long write_float "hs_write_float" (unsigned char *target, long long to, double value)
    double load_float64 "hs_load_float64" (const unsigned char *p, long long at)
    bint is_beyond_float32 "hs_is_beyond_float32" (double value)
    bint parse_whole "hs_parse_whole" (unsigned char *target, long long to, const unsigned char *p, long long at,
                                       long long size, long long width, bint is_signed)
    long long write_whole "hs_write_whole" (unsigned char *target, long long to, const unsigned char *p, long long at,
                                            long long width, bint is_signed)
