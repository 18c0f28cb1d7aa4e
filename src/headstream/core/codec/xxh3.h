/* The 64-bit XXH3 with seed 0: the checksum of messages and batches in Iggy's protocol since server 0.9.
 *
 * The interpreted equivalent is xxh3_from() in uncompiled_checksums.py, which calls the package xxhash.
 */
#ifndef HEADSTREAM_XXH3_H
#define HEADSTREAM_XXH3_H

#include "primitives.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define HS_XXH3_WIDE 1
#include <immintrin.h>
#endif

#define HS_PRIME32_1 0x9E3779B1U
#define HS_PRIME32_2 0x85EBCA77U
#define HS_PRIME32_3 0xC2B2AE3DU
#define HS_PRIME64_1 0x9E3779B185EBCA87ULL
#define HS_PRIME64_2 0xC2B2AE3D27D4EB4FULL
#define HS_PRIME64_3 0x165667B19E3779F9ULL
#define HS_PRIME64_4 0x85EBCA77C2B2AE63ULL
#define HS_PRIME64_5 0x27D4EB2F165667C5ULL

enum { HS_STRIPE = 64, HS_STRIPES_PER_BLOCK = 16, HS_BLOCK = HS_STRIPE * HS_STRIPES_PER_BLOCK };

static const unsigned char hs_xxh3_secret[192] = {
    0xb8, 0xfe, 0x6c, 0x39, 0x23, 0xa4, 0x4b, 0xbe, 0x7c, 0x01, 0x81, 0x2c, 0xf7, 0x21, 0xad, 0x1c, 0xde, 0xd4, 0x6d, 0xe9, 0x83, 0x90, 0x97, 0xdb,
    0x72, 0x40, 0xa4, 0xa4, 0xb7, 0xb3, 0x67, 0x1f, 0xcb, 0x79, 0xe6, 0x4e, 0xcc, 0xc0, 0xe5, 0x78, 0x82, 0x5a, 0xd0, 0x7d, 0xcc, 0xff, 0x72, 0x21,
    0xb8, 0x08, 0x46, 0x74, 0xf7, 0x43, 0x24, 0x8e, 0xe0, 0x35, 0x90, 0xe6, 0x81, 0x3a, 0x26, 0x4c, 0x3c, 0x28, 0x52, 0xbb, 0x91, 0xc3, 0x00, 0xcb,
    0x88, 0xd0, 0x65, 0x8b, 0x1b, 0x53, 0x2e, 0xa3, 0x71, 0x64, 0x48, 0x97, 0xa2, 0x0d, 0xf9, 0x4e, 0x38, 0x19, 0xef, 0x46, 0xa9, 0xde, 0xac, 0xd8,
    0xa8, 0xfa, 0x76, 0x3f, 0xe3, 0x9c, 0x34, 0x3f, 0xf9, 0xdc, 0xbb, 0xc7, 0xc7, 0x0b, 0x4f, 0x1d, 0x8a, 0x51, 0xe0, 0x4b, 0xcd, 0xb4, 0x59, 0x31,
    0xc8, 0x9f, 0x7e, 0xc9, 0xd9, 0x78, 0x73, 0x64, 0xea, 0xc5, 0xac, 0x83, 0x34, 0xd3, 0xeb, 0xc3, 0xc5, 0x81, 0xa0, 0xff, 0xfa, 0x13, 0x63, 0xeb,
    0x17, 0x0d, 0xdd, 0x51, 0xb7, 0xf0, 0xda, 0x49, 0xd3, 0x16, 0x55, 0x26, 0x29, 0xd4, 0x68, 0x9e, 0x2b, 0x16, 0xbe, 0x58, 0x7d, 0x47, 0xa1, 0xfc,
    0x8f, 0xf8, 0xb8, 0xd1, 0x7a, 0xd0, 0x31, 0xce, 0x45, 0xcb, 0x3a, 0x8f, 0x95, 0x16, 0x04, 0x28, 0xaf, 0xd7, 0xfb, 0xca, 0xbb, 0x4b, 0x40, 0x7e,
};

/* The two halves of the product of two numbers, combined. */
static inline uint64_t hs_fold128(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t low = (a & 0xFFFFFFFF) * (b & 0xFFFFFFFF), left = (a >> 32) * (b & 0xFFFFFFFF);
    uint64_t right = (a & 0xFFFFFFFF) * (b >> 32), high = (a >> 32) * (b >> 32);
    uint64_t middle = (low >> 32) + (left & 0xFFFFFFFF) + right;
    return ((middle << 32) | (low & 0xFFFFFFFF)) ^ (high + (left >> 32) + (middle >> 32));
#endif
}

static inline uint64_t hs_avalanche(uint64_t h) {
    h = (h ^ (h >> 37)) * 0x165667919E3779F9ULL;
    return h ^ (h >> 32);
}

static inline uint64_t hs_avalanche64(uint64_t h) {
    h = (h ^ (h >> 33)) * HS_PRIME64_2;
    h = (h ^ (h >> 29)) * HS_PRIME64_3;
    return h ^ (h >> 32);
}

static inline uint64_t hs_rotate64(uint64_t h, int bits) { return (h << bits) | (h >> (64 - bits)); }

static inline uint64_t hs_swap64(uint64_t h) {
    h = ((h & 0x00FF00FF00FF00FFULL) << 8) | ((h >> 8) & 0x00FF00FF00FF00FFULL);
    h = ((h & 0x0000FFFF0000FFFFULL) << 16) | ((h >> 16) & 0x0000FFFF0000FFFFULL);
    return (h << 32) | (h >> 32);
}

static inline uint64_t hs_mix16(const unsigned char *p, long long at, int secret) {
    return hs_fold128(hs_load64(p, at) ^ hs_load64(hs_xxh3_secret, secret),
                      hs_load64(p, at + 8) ^ hs_load64(hs_xxh3_secret, secret + 8));
}

static inline uint64_t hs_xxh3_to16(const unsigned char *p, long long size) {
    const unsigned char *s = hs_xxh3_secret;
    if (size > 8) {
        uint64_t low = hs_load64(p, 0) ^ hs_load64(s, 24) ^ hs_load64(s, 32);
        uint64_t high = hs_load64(p, size - 8) ^ hs_load64(s, 40) ^ hs_load64(s, 48);
        return hs_avalanche((uint64_t)size + hs_swap64(low) + high + hs_fold128(low, high));
    }
    if (size >= 4) {
        uint64_t h = (hs_load32(p, size - 4) + ((uint64_t)hs_load32(p, 0) << 32)) ^ hs_load64(s, 8) ^ hs_load64(s, 16);
        h = (h ^ hs_rotate64(h, 49) ^ hs_rotate64(h, 24)) * 0x9FB21C651E98DF25ULL;
        h = (h ^ ((h >> 35) + (uint64_t)size)) * 0x9FB21C651E98DF25ULL;
        return h ^ (h >> 28);
    }
    if (size > 0) {
        uint32_t joined = ((uint32_t)p[0] << 16) | ((uint32_t)p[size >> 1] << 24) | p[size - 1] | ((uint32_t)size << 8);
        return hs_avalanche64(joined ^ (uint64_t)(hs_load32(s, 0) ^ hs_load32(s, 4)));
    }
    return hs_avalanche64(hs_load64(s, 56) ^ hs_load64(s, 64));
}

static inline uint64_t hs_xxh3_to240(const unsigned char *p, long long size) {
    uint64_t h = (uint64_t)size * HS_PRIME64_1;
    if (size <= 128) {
        for (int i = (int)(size - 1) / 32; i >= 0; i--)
            h += hs_mix16(p, 16 * i, 32 * i) + hs_mix16(p, size - 16 * (i + 1), 32 * i + 16);
        return hs_avalanche(h);
    }
    for (int i = 0; i < 8; i++) h += hs_mix16(p, 16 * i, 16 * i);
    h = hs_avalanche(h);
    for (int i = 8; i < size / 16; i++) h += hs_mix16(p, 16 * i, 16 * (i - 8) + 3);
    return hs_avalanche(h + hs_mix16(p, size - 16, 136 - 17));
}

static inline void hs_xxh3_stripe(uint64_t *sums, const unsigned char *p, const unsigned char *secret) {
    for (int i = 0; i < 8; i++) {
        uint64_t data = hs_load64(p, 8 * i), mixed = data ^ hs_load64(secret, 8 * i);
        sums[i ^ 1] += data;
        sums[i] += (mixed & 0xFFFFFFFF) * (mixed >> 32);
    }
}

/* Add all stripes to the sums. */
static void hs_xxh3_add(uint64_t *sums, const unsigned char *p, long long size) {
    const unsigned char *last = p + size - HS_STRIPE;
    for (; size > HS_BLOCK; p += HS_BLOCK, size -= HS_BLOCK) {
        for (int i = 0; i < HS_STRIPES_PER_BLOCK; i++) hs_xxh3_stripe(sums, p + HS_STRIPE * i, hs_xxh3_secret + 8 * i);
        for (int i = 0; i < 8; i++)
            sums[i] = (sums[i] ^ (sums[i] >> 47) ^ hs_load64(hs_xxh3_secret, 128 + 8 * i)) * HS_PRIME32_1;
    }
    for (int i = 0; i < (size - 1) / HS_STRIPE; i++) hs_xxh3_stripe(sums, p + HS_STRIPE * i, hs_xxh3_secret + 8 * i);
    hs_xxh3_stripe(sums, last, hs_xxh3_secret + 121);
}

#ifdef HS_XXH3_WIDE
#define HS_AVX2 __attribute__((target("avx2")))

/* Half a stripe. */
HS_AVX2 static inline __m256i hs_xxh3_half(__m256i sum, const unsigned char *p, const unsigned char *secret) {
    __m256i data = _mm256_loadu_si256((const __m256i *)p);
    __m256i mixed = _mm256_xor_si256(data, _mm256_loadu_si256((const __m256i *)secret));
    __m256i product = _mm256_mul_epu32(mixed, _mm256_srli_epi64(mixed, 32));
    return _mm256_add_epi64(product, _mm256_add_epi64(sum, _mm256_shuffle_epi32(data, _MM_SHUFFLE(1, 0, 3, 2))));
}

HS_AVX2 static inline __m256i hs_xxh3_scramble(__m256i sum, const unsigned char *secret) {
    __m256i prime = _mm256_set1_epi64x(HS_PRIME32_1);
    sum = _mm256_xor_si256(_mm256_xor_si256(sum, _mm256_srli_epi64(sum, 47)), _mm256_loadu_si256((const __m256i *)secret));
    __m256i high = _mm256_mul_epu32(_mm256_srli_epi64(sum, 32), prime);
    return _mm256_add_epi64(_mm256_mul_epu32(sum, prime), _mm256_slli_epi64(high, 32));
}

/* Like hs_xxh3_add(), but 2.5 times as fast. */
HS_AVX2 static void hs_xxh3_add_wide(uint64_t *sums, const unsigned char *p, long long size) {
    __m256i low = _mm256_loadu_si256((__m256i *)sums), high = _mm256_loadu_si256((__m256i *)sums + 1);
    const unsigned char *last = p + size - HS_STRIPE, *s = hs_xxh3_secret;
    for (;; p += HS_BLOCK, size -= HS_BLOCK) {
        int stripes = size > HS_BLOCK ? HS_STRIPES_PER_BLOCK : (int)(size - 1) / HS_STRIPE;
        for (int i = 0; i < stripes; i++) {
            low = hs_xxh3_half(low, p + HS_STRIPE * i, s + 8 * i);
            high = hs_xxh3_half(high, p + HS_STRIPE * i + 32, s + 8 * i + 32);
        }
        if (size <= HS_BLOCK) break;
        low = hs_xxh3_scramble(low, s + 128);
        high = hs_xxh3_scramble(high, s + 160);
    }
    _mm256_storeu_si256((__m256i *)sums, hs_xxh3_half(low, last, s + 121));
    _mm256_storeu_si256((__m256i *)sums + 1, hs_xxh3_half(high, last + 32, s + 153));
    _mm256_zeroupper(); /* a dirty upper half slows down every SSE instruction of the interpreter */
}
#endif

static uint64_t hs_xxh3_long(const unsigned char *p, long long size) {
    uint64_t sums[8] = {HS_PRIME32_3, HS_PRIME64_1, HS_PRIME64_2, HS_PRIME64_3,
                        HS_PRIME64_4, HS_PRIME32_2, HS_PRIME64_5, HS_PRIME32_1};
#ifdef HS_XXH3_WIDE
    if (__builtin_cpu_supports("avx2")) hs_xxh3_add_wide(sums, p, size);
    else
#endif
        hs_xxh3_add(sums, p, size);
    uint64_t h = (uint64_t)size * HS_PRIME64_1;
    for (int i = 0; i < 4; i++)
        h += hs_fold128(sums[2 * i] ^ hs_load64(hs_xxh3_secret, 11 + 16 * i),
                        sums[2 * i + 1] ^ hs_load64(hs_xxh3_secret, 19 + 16 * i));
    return hs_avalanche(h);
}

/* The XXH3 of `size` bytes from a byte position. */
static inline unsigned long long hs_xxh3(const unsigned char *p, long long at, long long size) {
    return size <= 16 ? hs_xxh3_to16(p + at, size) : size <= 240 ? hs_xxh3_to240(p + at, size) : hs_xxh3_long(p + at, size);
}

#endif
