/* Numbers as decimal text for the compiled kernels.
 *
 * Each function has an equivalent of the same name in uncompiled_text_primitives.py. The kernels validate texts first.
 */
#ifndef HEADSTREAM_TEXT_PRIMITIVES_H
#define HEADSTREAM_TEXT_PRIMITIVES_H

#include "primitives.h"

/* The double nearest to a decimal text of at most 63 characters; infinity if out of range. Uses Python's parser, since
 * the C library's depends on the locale. */
static inline double hs_parse_float(const unsigned char *p, long long at, long long size) {
    char text[64];
    memcpy(text, p + at, (size_t)size);
    text[size] = 0;
    PyGILState_STATE state = PyGILState_Ensure();
    double value = PyOS_string_to_double(text, NULL, NULL);
    PyGILState_Release(state);
    return value;
}

/* Write the shortest decimal text, of at most 24 characters, that decodes to a double; return its length, or -1 if there
 * is not enough memory. */
static inline long long hs_write_float(unsigned char *target, long long to, double value) {
    PyGILState_STATE state = PyGILState_Ensure();
    char *text = PyOS_double_to_string(value, 'r', 0, Py_DTSF_ADD_DOT_0, NULL);
    long long size = -1;
    if (text != NULL) {
        size = (long long)strlen(text);
        memcpy(target + to, text, (size_t)size);
        PyMem_Free(text);
    } else {
        PyErr_Clear();
    }
    PyGILState_Release(state);
    return size;
}

static inline double hs_load_float64(const unsigned char *p, long long at) {
    uint64_t bits = hs_load64(p, at);
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

/* Whether a double is finite but outside the single-precision range. */
static inline int hs_is_beyond_float32(double value) {
    float narrow = (float)value;
    return narrow - narrow != 0.0f && value - value == 0.0;
}

/* Parse an optional minus sign and 1 to 39 digits, and write the integer in `width` bytes; return whether it fits. */
static inline int hs_parse_whole(unsigned char *target, long long to, const unsigned char *p, long long at, long long size,
                                 long long width, int is_signed) {
    int negative = p[at] == '-', bits = (int)(8 * width) - is_signed;
    uint64_t low = 0, high = 0;
    long long i = at + negative, end = at + size;
    for (long long quick = end - i < 19 ? end : i + 18; i < quick; i++) low = 10 * low + (uint64_t)(p[i] - '0');
    for (; i < end; i++) { /* 128 bits in steps of 32 */
        uint64_t carry = (uint64_t)(p[i] - '0'), part, limbs[4];
        for (int limb = 0; limb < 4; limb++) {
            part = limb < 2 ? low >> (32 * limb) : high >> (32 * (limb - 2));
            carry += 10 * (part & 0xFFFFFFFFULL);
            limbs[limb] = carry & 0xFFFFFFFFULL;
            carry >>= 32;
        }
        if (carry) return 0;
        low = limbs[0] | limbs[1] << 32;
        high = limbs[2] | limbs[3] << 32;
    }
    if (negative) { /* the magnitude minus one, whose complement is the number */
        if (low == 0 && high == 0) {
            negative = 0;
        } else if (!is_signed) {
            return 0;
        } else {
            high -= low == 0;
            low -= 1;
        }
    }
    if (bits < 64 ? high != 0 || low >> bits : bits == 64 ? high != 0 : bits < 128 && high >> (bits - 64)) return 0;
    if (negative) {
        low = ~low;
        high = ~high;
    }
    unsigned char number[16];
    hs_store64(number, 0, low);
    hs_store64(number, 8, high);
    memcpy(target + to, number, (size_t)width);
    return 1;
}

/* Write an integer of `width` little-endian bytes as text of at most 40 characters; return its length. */
static inline long long hs_write_whole(unsigned char *target, long long to, const unsigned char *p, long long at, long long width,
                                       int is_signed) {
    unsigned char number[16], text[20];
    memset(number, is_signed && p[at + width - 1] >= 0x80 ? 0xFF : 0, 16);
    memcpy(number, p + at, (size_t)width);
    if (width == 16) return hs_store_decimal(target, to, number, 0, is_signed);
    uint64_t low = hs_load64(number, 0);
    int begin = 20, negative = number[15] >= 0x80;
    if (negative) low = 0 - low;
    do {
        text[--begin] = (unsigned char)('0' + low % 10);
        low /= 10;
    } while (low);
    if (negative) target[to] = '-';
    memcpy(target + to + negative, text + begin, (size_t)(20 - begin));
    return 20 - begin + negative;
}

#endif
