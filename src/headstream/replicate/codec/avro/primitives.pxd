# The C side of Avro's primitives; the Python side is uncompiled_avro_primitives.py.

cdef extern from "avro_primitives.h" nogil:
    long long varint_stop "hs_varint_stop" (const unsigned char *p, long long at, long long end)
    long long varint_value "hs_varint_value" (const unsigned char *p, long long at, long long stop)
    bint reverse_decimal "hs_reverse_decimal" (unsigned char *target, long long to, const unsigned char *p, long long at,
                                           long long size, unsigned long long low, unsigned long long high)
