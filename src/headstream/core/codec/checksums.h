/* CRC-32 (zlib's) and CRC-32C (Castagnoli) for the compiled kernels.
 *
 * Both are reflected 32-bit CRCs, which the same code computes; the CRCs differ only in `struct hs_polynomial`.
 * A checksum is computed by folding: the input is a polynomial over GF(2), and a piece of it that
 * lies d bits ahead can be replaced by its product with x^d mod P, which PCLMULQDQ computes.
 *
 *     level 0   any CPU            eight tables, eight bytes per step
 *     level 1   x86-64 PCLMULQDQ   4 x 128 bits per step
 *     level 2   x86-64 VPCLMULQDQ  4 x 512 bits per step, for inputs of at least 256 bytes
 *
 * The constants are x^n mod P, bit-reflected and shifted left by one: `fold[i]` holds n = d + 32 and
 * n = d - 32 for a distance of d bits. tests/unit/core/codec/test_checksums_header.py recomputes them.
 */
#ifndef HEADSTREAM_CHECKSUMS_H
#define HEADSTREAM_CHECKSUMS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define HS_FOLDING 1
#include <immintrin.h>
#endif

enum { HS_2048, HS_1536, HS_1024, HS_512, HS_384, HS_256, HS_128, HS_DISTANCES };

struct hs_polynomial {
    uint32_t reflected;             /* the polynomial without x^32, lowest power in the highest bit */
    uint64_t fold[HS_DISTANCES][2]; /* x^(d + 32), x^(d - 32) */
    uint64_t x64;                   /* x^64 */
    uint64_t quotient, divisor;     /* Barrett: floor(x^64 / P), P */
    uint32_t table[8][256];         /* filled when the module is loaded */
};

static struct hs_polynomial hs_ieee = {
    0xEDB88320,
    {{0x11542778A, 0x1322D1430},
     {0x1821D8BC0, 0x12E958AC4},
     {0x1E88EF372, 0x14A7FE880},
     {0x154442BD4, 0x1C6E41596},
     {0x03DB1ECDC, 0x174359406},
     {0x0F1DA05AA, 0x15A546366},
     {0x1751997D0, 0x0CCAA009E}},
    0x163CD6124,
    0x1F7011641,
    0x1DB710641,
    {{0}},
};

static struct hs_polynomial hs_castagnoli = {
    0x82F63B78,
    {{0x0DCB17AA4, 0x0B9E02B86},
     {0x0A87AB8A8, 0x0AB7AFF2A},
     {0x06992CEA2, 0x00D3B6092},
     {0x0740EEF02, 0x09E4ADDF8},
     {0x01C291D04, 0x1D82C63DA},
     {0x1384AA63A, 0x0BA4FC28E},
     {0x0F20C0DFE, 0x14CD00BD6}},
    0x0DD45AAB8,
    0x0DEA713F1,
    0x105EC76F1,
    {{0}},
};

static int hs_crc_level = 0;

static void hs_fill_tables(struct hs_polynomial *polynomial) {
    for (int i = 0; i < 256; i++) {
        uint32_t value = (uint32_t)i;
        for (int bit = 0; bit < 8; bit++) value = (value >> 1) ^ (value & 1 ? polynomial->reflected : 0);
        polynomial->table[0][i] = value;
    }
    for (int i = 0; i < 256; i++) {
        uint32_t value = polynomial->table[0][i];
        for (int row = 1; row < 8; row++) {
            value = (value >> 8) ^ polynomial->table[0][value & 0xFF];
            polynomial->table[row][i] = value;
        }
    }
}

/* Runs when the module is loaded, before the first checksum. */
__attribute__((constructor)) static void hs_prepare_checksums(void) {
    hs_fill_tables(&hs_ieee);
    hs_fill_tables(&hs_castagnoli);
#ifdef HS_FOLDING
    __builtin_cpu_init();
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1")) hs_crc_level = 1;
    if (hs_crc_level == 1 && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw"))
        hs_crc_level = 2;
#endif
}

static inline uint32_t hs_little32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* `state` is the complement of a checksum, here and in the following functions. */
static uint32_t hs_crc_tables(const struct hs_polynomial *polynomial, const unsigned char *p, size_t size, uint32_t state) {
    const uint32_t(*t)[256] = polynomial->table;
    for (; size >= 8; p += 8, size -= 8) {
        uint32_t low = state ^ hs_little32(p), high = hs_little32(p + 4);
        state = t[7][low & 0xFF] ^ t[6][low >> 8 & 0xFF] ^ t[5][low >> 16 & 0xFF] ^ t[4][low >> 24] ^ t[3][high & 0xFF] ^
                t[2][high >> 8 & 0xFF] ^ t[1][high >> 16 & 0xFF] ^ t[0][high >> 24];
    }
    for (; size > 0; p++, size--) state = (state >> 8) ^ t[0][(state ^ *p) & 0xFF];
    return state;
}

#ifdef HS_FOLDING

#define HS_SSE __attribute__((target("pclmul,sse4.1,ssse3")))
#define HS_AVX512 __attribute__((target("vpclmulqdq,pclmul,avx512f,avx512vl,avx512bw")))
#define HS_INLINE_SSE static inline __attribute__((always_inline, target("pclmul,sse4.1,ssse3")))

HS_INLINE_SSE __m128i hs_fold(__m128i x, __m128i constants, __m128i next) {
    __m128i low = _mm_clmulepi64_si128(x, constants, 0x00), high = _mm_clmulepi64_si128(x, constants, 0x11);
    return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

HS_INLINE_SSE __m128i hs_constants(const struct hs_polynomial *polynomial, int distance) {
    return _mm_loadu_si128((const __m128i *)polynomial->fold[distance]);
}

/* Reduce 16 bytes and the rest of the input, 0 to 15 bytes, to 32 bits. `p` has at least 16 bytes before its end. */
HS_INLINE_SSE uint32_t hs_finish(const struct hs_polynomial *polynomial, __m128i x, const unsigned char *p, size_t size) {
    static const unsigned char shifts[48] __attribute__((aligned(16))) = {
        0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
        0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15,
        0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80};
    if (size > 0) {
        /* The first `size` of the 16 bytes are folded ahead; the remaining bytes and the rest of the input are again 16 bytes. */
        __m128i ahead = _mm_shuffle_epi8(x, _mm_loadu_si128((const __m128i *)(shifts + size)));
        __m128i keep = _mm_shuffle_epi8(x, _mm_loadu_si128((const __m128i *)(shifts + 16 + size)));
        __m128i mask = _mm_cmpgt_epi8(_mm_loadu_si128((const __m128i *)(shifts + 16 + size)), _mm_set1_epi8(-1));
        __m128i rest = _mm_loadu_si128((const __m128i *)(p + size - 16));
        x = hs_fold(ahead, hs_constants(polynomial, HS_128), _mm_or_si128(keep, _mm_andnot_si128(mask, rest)));
    }
    __m128i k128 = hs_constants(polynomial, HS_128), low32 = _mm_set_epi32(0, 0, 0, -1);
    x = _mm_xor_si128(_mm_srli_si128(x, 8), _mm_clmulepi64_si128(x, k128, 0x10)); /* 128 to 96 bits, by x^96 */
    __m128i y = _mm_clmulepi64_si128(_mm_and_si128(x, low32), _mm_cvtsi64_si128((long long)polynomial->x64), 0x00);
    x = _mm_xor_si128(_mm_srli_si128(x, 4), y); /* to 64 bits, by x^64 */
    __m128i barrett = _mm_set_epi64x((long long)polynomial->quotient, (long long)polynomial->divisor);
    y = _mm_clmulepi64_si128(_mm_and_si128(x, low32), barrett, 0x10);
    y = _mm_clmulepi64_si128(_mm_and_si128(y, low32), barrett, 0x00);
    return (uint32_t)_mm_extract_epi32(_mm_xor_si128(x, y), 1);
}

HS_INLINE_SSE uint32_t hs_fold_rest(const struct hs_polynomial *polynomial, __m128i x, const unsigned char *p, size_t size) {
    __m128i k128 = hs_constants(polynomial, HS_128);
    for (; size >= 16; p += 16, size -= 16) x = hs_fold(x, k128, _mm_loadu_si128((const __m128i *)p));
    return hs_finish(polynomial, x, p, size);
}

/* At least 16 bytes. */
HS_SSE static uint32_t hs_crc_128(const struct hs_polynomial *polynomial, const unsigned char *p, size_t size, uint32_t state) {
    const __m128i *in = (const __m128i *)p;
    __m128i x = _mm_xor_si128(_mm_loadu_si128(in), _mm_cvtsi32_si128((int)state));
    if (size < 64) return hs_fold_rest(polynomial, x, p + 16, size - 16);
    __m128i x1 = _mm_loadu_si128(in + 1), x2 = _mm_loadu_si128(in + 2), x3 = _mm_loadu_si128(in + 3);
    __m128i k512 = hs_constants(polynomial, HS_512);
    for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
        in = (const __m128i *)p;
        x = hs_fold(x, k512, _mm_loadu_si128(in));
        x1 = hs_fold(x1, k512, _mm_loadu_si128(in + 1));
        x2 = hs_fold(x2, k512, _mm_loadu_si128(in + 2));
        x3 = hs_fold(x3, k512, _mm_loadu_si128(in + 3));
    }
    x3 = hs_fold(x2, hs_constants(polynomial, HS_128), x3);
    x3 = hs_fold(x1, hs_constants(polynomial, HS_256), x3);
    x3 = hs_fold(x, hs_constants(polynomial, HS_384), x3);
    return hs_fold_rest(polynomial, x3, p, size);
}

#define HS_FOLD_512(x, constants, next)                                                                 \
    _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(x, constants, 0x00),                             \
                              _mm512_clmulepi64_epi128(x, constants, 0x11), next, 0x96 /* xor of all */)
#define HS_CONSTANTS_512(distance) _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)polynomial->fold[distance]))

HS_AVX512 static inline unsigned char *hs_store_256(unsigned char *target, __m512i x, __m512i x1, __m512i x2, __m512i x3) {
    _mm512_storeu_si512(target, x);
    _mm512_storeu_si512(target + 64, x1);
    _mm512_storeu_si512(target + 128, x2);
    _mm512_storeu_si512(target + 192, x3);
    return target + 256;
}

/* At least 256 bytes, which are also copied to `target` unless it is NULL: loads, stores and folds overlap. */
static inline __attribute__((always_inline, target("vpclmulqdq,pclmul,avx512f,avx512vl,avx512bw"))) uint32_t hs_copy_crc_512(
    const struct hs_polynomial *polynomial, unsigned char *target, const unsigned char *p, size_t size, uint32_t state) {
    __m512i x = _mm512_loadu_si512(p), x1 = _mm512_loadu_si512(p + 64);
    __m512i x2 = _mm512_loadu_si512(p + 128), x3 = _mm512_loadu_si512(p + 192);
    __m512i k2048 = HS_CONSTANTS_512(HS_2048), k512 = HS_CONSTANTS_512(HS_512);
    if (target) target = hs_store_256(target, x, x1, x2, x3);
    x = _mm512_xor_si512(x, _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)state)));
    for (p += 256, size -= 256; size >= 256; p += 256, size -= 256) {
        __m512i y = _mm512_loadu_si512(p), y1 = _mm512_loadu_si512(p + 64);
        __m512i y2 = _mm512_loadu_si512(p + 128), y3 = _mm512_loadu_si512(p + 192);
        if (target) {
            /* Prefetch the cache lines that are written next; a prefetch beyond the end has no effect. */
            for (int line = 512; line < 768; line += 64) __builtin_prefetch(target + line, 1);
            target = hs_store_256(target, y, y1, y2, y3);
        }
        x = HS_FOLD_512(x, k2048, y);
        x1 = HS_FOLD_512(x1, k2048, y1);
        x2 = HS_FOLD_512(x2, k2048, y2);
        x3 = HS_FOLD_512(x3, k2048, y3);
    }
    x3 = HS_FOLD_512(x2, k512, x3);
    x3 = HS_FOLD_512(x1, HS_CONSTANTS_512(HS_1024), x3);
    x3 = HS_FOLD_512(x, HS_CONSTANTS_512(HS_1536), x3);
    for (; size >= 64; p += 64, size -= 64) {
        __m512i y = _mm512_loadu_si512(p);
        if (target) {
            _mm512_storeu_si512(target, y);
            target += 64;
        }
        x3 = HS_FOLD_512(x3, k512, y);
    }
    if (target) memcpy(target, p, size);
    __m128i lane = _mm512_extracti32x4_epi32(x3, 3);
    lane = hs_fold(_mm512_extracti32x4_epi32(x3, 2), hs_constants(polynomial, HS_128), lane);
    lane = hs_fold(_mm512_extracti32x4_epi32(x3, 1), hs_constants(polynomial, HS_256), lane);
    lane = hs_fold(_mm512_castsi512_si128(x3), hs_constants(polynomial, HS_384), lane);
    uint32_t result = hs_fold_rest(polynomial, lane, p, size);
    _mm256_zeroupper(); /* a dirty upper half slows down every SSE instruction of the interpreter */
    return result;
}

HS_AVX512 static uint32_t hs_crc_512(const struct hs_polynomial *polynomial, const unsigned char *p, size_t size, uint32_t state) {
    return hs_copy_crc_512(polynomial, NULL, p, size, state);
}

HS_AVX512 static uint32_t hs_copy_crc32_512(unsigned char *target, const unsigned char *p, size_t size) {
    return hs_copy_crc_512(&hs_ieee, target, p, size, ~(uint32_t)0);
}

#endif

static inline uint32_t hs_crc(const struct hs_polynomial *polynomial, const unsigned char *p, size_t size, uint32_t value) {
#ifdef HS_FOLDING
    if (size >= 256 && hs_crc_level == 2) return ~hs_crc_512(polynomial, p, size, ~value);
    if (size >= 16 && hs_crc_level >= 1) return ~hs_crc_128(polynomial, p, size, ~value);
#endif
    return ~hs_crc_tables(polynomial, p, size, ~value);
}

/* The CRC-32 of `size` bytes, continued from the CRC-32 `value` of the preceding bytes (0 if there are none). */
static inline unsigned int hs_crc32(const unsigned char *p, long long at, long long size, unsigned int value) {
    return hs_crc(&hs_ieee, p + at, (size_t)size, value);
}

/* The CRC-32C, like hs_crc32(). */
static inline unsigned int hs_crc32c(const unsigned char *p, long long at, long long size, unsigned int value) {
    return hs_crc(&hs_castagnoli, p + at, (size_t)size, value);
}

/* Copy `size` bytes and return their CRC-32. */
static inline unsigned int hs_copy_crc32(unsigned char *target, long long at, const unsigned char *source, long long from,
                                         long long size) {
#ifdef HS_FOLDING
    if (size >= 256 && hs_crc_level == 2) return ~hs_copy_crc32_512(target + at, source + from, (size_t)size);
#endif
    memcpy(target + at, source + from, (size_t)size);
    return hs_crc32(source, from, size, 0);
}

#endif
