/* Comparisons of numbers of different types, for the compiled filter kernel.
 *
 * Each function has an equivalent of the same name in uncompiled_filter_primitives.py.
 */
#ifndef HEADSTREAM_FILTER_PRIMITIVES_H
#define HEADSTREAM_FILTER_PRIMITIVES_H

#include "primitives.h"

static inline double hs_load_double(const unsigned char *p, long long at) {
    uint64_t bits = hs_load64(p, at);
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

/* -1, 0 or 1 if the first float is less than, equal to or greater than the second; 2 if either is a NaN. */
static inline int hs_compare_floats(double a, double b) {
    return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2;
}

/* Compare an integer, given as sign and 128 bits of magnitude, with a float, without rounding; as hs_compare_floats(). */
static inline int hs_compare_whole_to_float(int negative, unsigned long long low, unsigned long long high, double b) {
    if (b != b) return 2;
    if (low == 0 && high == 0) return b > 0 ? -1 : b < 0 ? 1 : 0;
    if (negative != (b < 0)) return negative ? -1 : 1;
    if (b < 0) b = -b;
    int order;
    if (b >= 340282366920938463463374607431768211456.0) {
        order = -1;
    } else {
        /* The two halves of the float's whole part: division by a power of two and the difference are exact. */
        unsigned long long b_high = (unsigned long long)(b / 18446744073709551616.0);
        double rest = b - (double)b_high * 18446744073709551616.0;
        unsigned long long b_low = (unsigned long long)rest;
        if (high != b_high) order = high < b_high ? -1 : 1;
        else if (low != b_low) order = low < b_low ? -1 : 1;
        else order = rest > (double)b_low ? -1 : 0;
    }
    return negative ? -order : order;
}

#endif
