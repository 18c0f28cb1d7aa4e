/* Varints and decimals of Avro for the compiled kernels.
 *
 * Each function has a twin of the same name in uncompiled_avro_primitives.py. A varint has 7 bits a byte, the lowest
 * first, the top bit set on all but the last; at most 10 bytes, of which the last holds one bit.
 */
#ifndef HEADSTREAM_AVRO_PRIMITIVES_H
#define HEADSTREAM_AVRO_PRIMITIVES_H

#include "primitives.h"

/* The position after the varint at `at`; -1 where `end` comes first, -2 where it has more than 64 bits. */
static inline long long hs_varint_stop(const unsigned char *p, long long at, long long end) {
    long long limit = end - at > 9 ? at + 9 : end;
    for (long long i = at; i < limit; i++) {
        if (p[i] < 0x80) return i + 1;
    }
    if (limit == end) return -1;
    return p[limit] <= 1 ? limit + 1 : -2;
}

/* The zig-zag number of the varint from `at` to `stop`. */
static inline long long hs_varint_value(const unsigned char *p, long long at, long long stop) {
    unsigned long long value = 0;
    while (stop > at) value = (value << 7) | (p[--stop] & 0x7F);
    return (long long)((value >> 1) ^ (0 - (value & 1)));
}

/* Write a big-endian number of 1 to 16 bytes as one of 16, little-endian, both in two's complement. Returns whether it
 * is less than high * 2^64 + low, its sign apart. */
static inline int hs_reverse_decimal(unsigned char *target, long long to, const unsigned char *p, long long at, long long size,
                                   unsigned long long low, unsigned long long high) {
    unsigned long long sign = p[at] > 0x7F ? ~0ULL : 0;
    unsigned long long upper = sign, lower = sign;
    for (long long i = 0; i < size; i++) {
        upper = (upper << 8) | (lower >> 56);
        lower = (lower << 8) | p[at + i];
    }
    hs_store64(target, to, lower);
    hs_store64(target, to + 8, upper);
    if (sign) {
        lower = 0 - lower;
        upper = ~upper + (lower == 0);
    }
    return upper < high || (upper == high && lower < low);
}

#endif
