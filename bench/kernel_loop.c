/* The stamp kernel written by hand in C, with the same checksums: what bench/kernels.py compares with.
 *
 * It checks every header against the iggy limits, writes the stored messages and computes the masked CRC-32C,
 * as src/headstream/codec/batch/stored/stamp.py does. Compiled by the benchmark: cc -O3 -I src/headstream/codec.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "checksums.h"

static uint32_t load32(const unsigned char *p) {
    uint32_t value;
    memcpy(&value, p, 4);
    return value;
}

static uint64_t mix64(uint64_t z) {
    z += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
}

static int is_utf8(const unsigned char *p, size_t size) {
    for (size_t i = 0; i < size;) {
        if (p[i] < 0x80) {
            i++;
            continue;
        }
        size_t more = p[i] >= 0xF0 ? 3 : p[i] >= 0xE0 ? 2 : 1;
        if (p[i] < 0xC2 || p[i] > 0xF4 || i + more >= size) return 0;
        if ((p[i] == 0xE0 && p[i + 1] < 0xA0) || (p[i] == 0xED && p[i + 1] > 0x9F)) return 0;
        if ((p[i] == 0xF0 && p[i + 1] < 0x90) || (p[i] == 0xF4 && p[i + 1] > 0x8F)) return 0;
        for (size_t j = 1; j <= more; j++)
            if ((p[i + j] & 0xC0) != 0x80) return 0;
        i += more + 1;
    }
    return 1;
}

static long long check_headers(const unsigned char *p, const unsigned char *end) {
    static const signed char widths[16] = {-2, -1, -1, 1, 1, 2, 4, 8, 16, 1, 2, 4, 8, 16, 4, 8};
    long long values = 0;
    while (p < end) {
        if (end - p < 4) return -1;
        uint32_t size = load32(p);
        if (size < 1 || size > 255 || end - p < (long long)size + 9 || !is_utf8(p + 4, size)) return -1;
        p += 4 + size;
        unsigned char kind = *p;
        size = load32(p + 1);
        p += 5;
        if (kind < 1 || kind > 15 || size < 1 || size > 255 || end - p < (long long)size) return -1;
        if (widths[kind] >= 0 && widths[kind] != (int)size) return -1;
        if ((kind == 3 && *p > 1) || (kind == 2 && !is_utf8(p, size))) return -1;
        p += size;
        values += size;
    }
    return values;
}

/* How many messages a sent batch holds, -1 where it cannot be stamped. */
static long long check(const unsigned char *p, const unsigned char *end) {
    long long count = 0, values = 0, payloads = 0;
    for (; p < end; count++) {
        if (end - p < 24) return -1;
        uint32_t size = load32(p + 16);
        if (end - p - 24 < (long long)size) return -1;
        long long found = check_headers(p + 20, p + 20 + size);
        if (found < 0) return -1;
        values += found;
        p += 20 + size;
        size = load32(p);
        if (size == 0 || end - p - 4 < (long long)size) return -1;
        payloads += size;
        p += 4 + size;
    }
    return values > 100000 || payloads > 10000000 ? -1 : count;
}

static uint32_t settle(unsigned char *q, unsigned char *end, uint32_t crc) {
    crc = hs_crc32c(q, 0, end - q, crc);
    while (q < end) {
        q[8] = 1;
        q += 41 + load32(q + 37);
        q += 4 + load32(q);
    }
    return crc;
}

/* The stored messages of a sent batch in new memory, to be given to release(); NULL where it cannot be stamped. */
unsigned char *stamp(const unsigned char *p, long long size, uint64_t offset, uint64_t timestamp, const unsigned char *seed, uint32_t *crc) {
    const unsigned char *end = p + size;
    long long count = check(p, end);
    if (count < 0) return NULL;
    unsigned char *out = malloc((size_t)(size + 21 * count)), *q = out, *settled = out;
    uint64_t low, high, generated = 0, milliseconds = timestamp / 1000, time = 0x70ULL << 48;
    memcpy(&low, seed, 8);
    memcpy(&high, seed + 8, 8);
    for (int i = 0; i < 6; i++) time |= (milliseconds >> (40 - 8 * i) & 0xFF) << (8 * i);
    *crc = 0;
    while (p < end) {
        uint64_t id[2];
        memcpy(id, p, 16);
        if ((id[0] | id[1]) == 0) {
            id[0] = time | (mix64(low + generated) & 0xFF0F000000000000ULL);
            id[1] = 0x80 | (mix64(high + generated) & 0xFFFFFFFFFFFFFF3FULL);
            generated += 0x9E3779B97F4A7C15ULL;
        }
        uint32_t headers = load32(p + 16), payload = load32(p + 20 + headers);
        memcpy(q, &offset, 8);
        q[8] = 0;
        memcpy(q + 9, &timestamp, 8);
        memcpy(q + 17, id, 16);
        memcpy(q + 37, p + 16, headers + 8);
        uint32_t checksum = hs_copy_crc32(q, 45 + headers, p, 24 + headers, payload);
        memcpy(q + 33, &checksum, 4);
        offset++;
        p += 24 + headers + payload;
        q += 45 + headers + payload;
        if (q - settled >= 16384) {
            *crc = settle(settled, q, *crc);
            settled = q;
        }
    }
    *crc = settle(settled, q, *crc);
    return out;
}

void release(unsigned char *memory) { free(memory); }
