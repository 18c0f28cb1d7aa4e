/* Loads, stores and copies of little-endian bytes for the compiled kernels.
 *
 * Each function has an equivalent of the same name in uncompiled_primitives.py, for interpreted kernels.
 * The functions do not check bounds: the kernels check them before they access a byte.
 */
#ifndef HEADSTREAM_PRIMITIVES_H
#define HEADSTREAM_PRIMITIVES_H

#include <Python.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define HS_LITTLE16(value) __builtin_bswap16(value)
#define HS_LITTLE32(value) __builtin_bswap32(value)
#define HS_LITTLE64(value) __builtin_bswap64(value)
#else
#define HS_LITTLE16(value) (value)
#define HS_LITTLE32(value) (value)
#define HS_LITTLE64(value) (value)
#endif

static inline unsigned int hs_load16(const unsigned char *p, long long at) {
    uint16_t value;
    memcpy(&value, p + at, 2);
    return HS_LITTLE16(value);
}

static inline unsigned int hs_load32(const unsigned char *p, long long at) {
    uint32_t value;
    memcpy(&value, p + at, 4);
    return HS_LITTLE32(value);
}

/* Whether value i of a column is null according to Arrow's validity bitmap, which can be empty if no value is null. */
static inline int hs_is_null(const unsigned char *validity, int some_null, long long i) {
    return some_null && !(validity[i >> 3] >> (i & 7) & 1);
}

static inline unsigned long long hs_load64(const unsigned char *p, long long at) {
    uint64_t value;
    memcpy(&value, p + at, 8);
    return HS_LITTLE64(value);
}

static inline long long hs_load64_signed(const unsigned char *p, long long at) {
    return (long long)hs_load64(p, at);
}

static inline void hs_store16(unsigned char *p, long long at, unsigned int value) {
    uint16_t little = HS_LITTLE16((uint16_t)value);
    memcpy(p + at, &little, 2);
}

static inline void hs_store32(unsigned char *p, long long at, unsigned int value) {
    uint32_t little = HS_LITTLE32(value);
    memcpy(p + at, &little, 4);
}

static inline void hs_store64(unsigned char *p, long long at, unsigned long long value) {
    uint64_t little = HS_LITTLE64(value);
    memcpy(p + at, &little, 8);
}

static inline void hs_store64_signed(unsigned char *p, long long at, long long value) {
    hs_store64(p, at, (unsigned long long)value);
}

static inline double hs_load_float32(const unsigned char *p, long long at) {
    uint32_t bits = hs_load32(p, at);
    float value;
    memcpy(&value, &bits, 4);
    return (double)value;
}

static inline void hs_store_float32(unsigned char *p, long long at, double value) {
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, 4);
    bits = HS_LITTLE32(bits);
    memcpy(p + at, &bits, 4);
}

static inline void hs_store_float64(unsigned char *p, long long at, double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    hs_store64(p, at, bits);
}

/* Most copies are of a few bytes, for which two overlapping moves are faster than a call. */
static inline void hs_copy(unsigned char *target, long long at, const unsigned char *source, long long from, long long size) {
    unsigned char *to = target + at;
    const unsigned char *p = source + from;
    if (size > 32) {
        memcpy(to, p, (size_t)size);
    } else if (size >= 16) {
        unsigned char last[16];
        memcpy(last, p + size - 16, 16);
        memcpy(to, p, 16);
        memcpy(to + size - 16, last, 16);
    } else if (size >= 8) {
        uint64_t first, last;
        memcpy(&first, p, 8);
        memcpy(&last, p + size - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + size - 8, &last, 8);
    } else if (size >= 4) {
        uint32_t first, last;
        memcpy(&first, p, 4);
        memcpy(&last, p + size - 4, 4);
        memcpy(to, &first, 4);
        memcpy(to + size - 4, &last, 4);
    } else {
        for (; size > 0; size--) *to++ = *p++;
    }
}

static inline void hs_fill(unsigned char *target, long long at, unsigned char value, long long size) {
    memset(target + at, value, (size_t)size);
}

static inline int hs_equal(const unsigned char *a, long long at, const unsigned char *b, long long from, long long size) {
    return memcmp(a + at, b + from, (size_t)size) == 0;
}

/* A negative number, 0 or a positive number if the first text sorts before, equals or sorts after the second, bytewise. */
static inline int hs_compare(const unsigned char *a, long long at, long long a_size, const unsigned char *b, long long from,
                             long long b_size) {
    int order = memcmp(a + at, b + from, (size_t)(a_size < b_size ? a_size : b_size));
    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

/* Whether `size` bytes are ASCII. */
static inline int hs_is_ascii(const unsigned char *s, long long size) {
    const unsigned long long high = 0x8080808080808080ULL;
    if (size >= 8) {
        unsigned long long seen = hs_load64(s, size - 8);
        for (long long i = 0; i + 8 < size; i += 8) seen |= hs_load64(s, i);
        return (seen & high) == 0;
    }
    if (size >= 4) return ((hs_load32(s, 0) | hs_load32(s, size - 4)) & 0x80808080U) == 0;
    unsigned char seen = 0;
    for (long long i = 0; i < size; i++) seen |= s[i];
    return seen < 0x80;
}

/* The number of valid UTF-8 bytes (as Python's strict decoder defines them): `size` if all bytes are valid. */
static long long hs_utf8_walk(const unsigned char *s, long long size) {
    long long i = 0;
    while (i < size) {
        unsigned char lead = s[i];
        if (lead < 0x80) {
            i += 1;
            continue;
        }
        int width = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
        if (lead < 0xC2 || lead > 0xF4 || i + width > size || (s[i + 1] & 0xC0) != 0x80) return i;
        if ((lead == 0xE0 && s[i + 1] < 0xA0) || (lead == 0xED && s[i + 1] > 0x9F)) return i;
        if ((lead == 0xF0 && s[i + 1] < 0x90) || (lead == 0xF4 && s[i + 1] > 0x8F)) return i;
        if (width > 2 && (s[i + 2] & 0xC0) != 0x80) return i;
        if (width > 3 && (s[i + 3] & 0xC0) != 0x80) return i;
        i += width;
    }
    return size;
}

static inline long long hs_utf8_size(const unsigned char *p, long long at, long long size) {
    return hs_is_ascii(p + at, size) ? size : hs_utf8_walk(p + at, size);
}

/* The width of a kind's values in bytes; -1 for variable width, -2 for an unknown kind. */
static inline int hs_kind_width(int kind) {
    static const signed char widths[16] = {-2, -1, -1, 1, 1, 2, 4, 8, 16, 1, 2, 4, 8, 16, 4, 8};
    return kind < 16 ? widths[kind] : kind == 64 ? 0 : kind == 65 ? 2 : -2;
}

/* Record a fault with its position and the numbers of needed and available bytes; return it as a negative number. */
static inline long long hs_note_fault(unsigned char *notes, int code, long long at, long long need, long long have) {
    hs_store64_signed(notes, 0, at);
    hs_store64_signed(notes, 8, need);
    hs_store64_signed(notes, 16, have);
    return -code;
}

/* A stored message up to the size of its headers (layout.py): offset u64 | state u8 | timestamp u64 | id u128 | crc32 u32. */
static inline void hs_store_head(unsigned char *p, long long at, unsigned long long offset, unsigned char state,
                                 unsigned long long timestamp, unsigned long long id_low, unsigned long long id_high,
                                 unsigned int crc) {
    hs_store64(p, at, offset);
    p[at + 8] = state;
    hs_store64(p, at + 9, timestamp);
    hs_store64(p, at + 17, id_low);
    hs_store64(p, at + 25, id_high);
    hs_store32(p, at + 33, crc);
}

/* The next number of a splitmix64 sequence: add the golden ratio to the state, then mix. */
static inline unsigned long long hs_mix64(unsigned long long state) {
    unsigned long long z = state + 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

/* The first half of a version 7 UUID without random bits: 48 bits of milliseconds, highest byte first, and the version. */
static inline unsigned long long hs_uuid_time(unsigned long long time_ms) {
    unsigned long long value = 0x70;
    for (int i = 0; i < 6; i++) value = value << 8 | (time_ms >> 8 * i & 0xFF);
    return value;
}

/* Write 36 characters: the UUID whose 16 bytes are at `from`. */
static inline void hs_store_uuid(unsigned char *target, long long at, const unsigned char *source, long long from) {
    static const char digits[] = "0123456789abcdef";
    unsigned char *to = target + at;
    for (int i = 0; i < 16; i++) {
        unsigned char byte = source[from + i];
        if (i == 4 || i == 6 || i == 8 || i == 10) *to++ = '-';
        *to++ = (unsigned char)digits[byte >> 4];
        *to++ = (unsigned char)digits[byte & 15];
    }
}

/* Write a 128-bit number as decimal text of at most 40 characters; return its length. */
static inline long long hs_store_decimal(unsigned char *target, long long at, const unsigned char *source, long long from,
                                         int is_signed) {
    uint32_t limbs[4];
    unsigned char text[40];
    int begin = 40, negative = is_signed && source[from + 15] >= 0x80;
    uint64_t carry = (uint64_t)negative;
    for (int i = 0; i < 4; i++) {
        uint32_t limb = hs_load32(source, from + 4 * i);
        carry += negative ? ~limb : limb; /* the magnitude: complement and add one */
        limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    do {
        uint64_t rest = 0;
        for (int i = 3; i >= 0; i--) {
            rest = rest << 32 | limbs[i];
            limbs[i] = (uint32_t)(rest / 10);
            rest %= 10;
        }
        text[--begin] = (unsigned char)('0' + rest);
    } while (limbs[0] | limbs[1] | limbs[2] | limbs[3]);
    if (negative) text[--begin] = '-';
    memcpy(target + at, text + begin, (size_t)(40 - begin));
    return 40 - begin;
}

/* A negative number, 0 or a positive number if the key at `a` sorts before, equals or sorts after the key at `b`. */
static inline int hs_compare_keys(const unsigned char *p, long long a, long long b) {
    return hs_compare(p, a, hs_load32(p, a - 4), p, b, hs_load32(p, b - 4));
}

/* Sort positions of keys by key, bytewise and stable. `entries` has space for twice the number of positions. */
static inline void hs_sort_keys(const unsigned char *p, unsigned char *entries, long long count) {
    unsigned char *from = entries, *to = entries + 8 * count;
    if (count <= 16) {
        for (long long i = 1; i < count; i++) {
            long long key = hs_load64_signed(from, 8 * i), j = i;
            for (; j > 0 && hs_compare_keys(p, hs_load64_signed(from, 8 * j - 8), key) > 0; j--) memcpy(from + 8 * j, from + 8 * j - 8, 8);
            hs_store64_signed(from, 8 * j, key);
        }
        return;
    }
    for (long long width = 1; width < count; width *= 2) { /* merge runs of `width` to runs of twice this length */
        for (long long low = 0; low < count; low += 2 * width) {
            long long middle = low + width < count ? low + width : count, high = middle + width < count ? middle + width : count;
            long long i = low, j = middle;
            for (long long k = low; k < high; k++) {
                int left = j >= high || (i < middle && hs_compare_keys(p, hs_load64_signed(from, 8 * i), hs_load64_signed(from, 8 * j)) <= 0);
                memcpy(to + 8 * k, from + 8 * (left ? i++ : j++), 8);
            }
        }
        unsigned char *swap = from;
        from = to;
        to = swap;
    }
    if (from != entries) memcpy(entries, from, (size_t)count * 8);
}

/* A bytearray with undefined content, which the kernel overwrites. NULL if there is not enough memory. */
static inline PyObject *hs_new_bytes(long long size) {
    return PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)size);
}

/* A pointer to the bytes of a bytearray, valid until it is resized. */
static inline unsigned char *hs_writable(PyObject *data) {
    return (unsigned char *)PyByteArray_AS_STRING(data);
}

/* A pointer to the bytes from a byte position. */
static inline const unsigned char *hs_after(const unsigned char *p, long long at) {
    return p + at;
}

/* A pointer to the bytes of a memoryview, valid while the view exists; NULL and an exception if they are not contiguous. */
static inline const unsigned char *hs_readable(PyObject *view) {
    Py_buffer *buffer = PyMemoryView_GET_BUFFER(view);
    if (!PyBuffer_IsContiguous(buffer, 'C')) {
        PyErr_SetString(PyExc_BufferError, "the buffer is not contiguous");
        return NULL;
    }
    return (const unsigned char *)buffer->buf;
}

/* A writable pointer to the bytes of a writable memoryview, with the same conditions. */
static inline unsigned char *hs_changeable(PyObject *view) {
    if (PyMemoryView_GET_BUFFER(view)->readonly) {
        PyErr_SetString(PyExc_BufferError, "the buffer is read-only");
        return NULL;
    }
    return (unsigned char *)hs_readable(view);
}

#endif
