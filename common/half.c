/* SPDX-License-Identifier: Apache-2.0 */
/* float32 values in two bytes. bfloat16 is a float32 without its lower half. float16 has a sign, 5 bits of exponent (bias 15) and
 * 10 of fraction; values below 2^-14 are multiples of 2^-24. Rounding adds half a unit of the last kept bit, minus 1 if this bit
 * is 0; a carry into the exponent gives the right value. The loops have no branches, so they become vector code. Arrays of
 * float16 are converted by the F16C instructions if the CPU has them. */
#include "half.h"

#include "clones.h"
#include "status.h"

enum {
    LINE = 16,         /* number of float32 values in a cache line */
    AHEAD_BYTES = 4096 /* distance of prefetches from the value being narrowed. Values out of cache are then narrowed twice as
                        * fast: the CPU's own prefetchers stop at the end of each 4 KiB. A prefetch behind the end of an array
                        * does no harm */
};
#define F32_INF UINT32_C(0x7f800000)

static inline uint32_t bits_of(float x)
{
    uint32_t bits = 0;
    __builtin_memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float x = 0;
    __builtin_memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline uint32_t get32(const uint8_t *p)
{
    uint32_t x = 0;
    __builtin_memcpy(&x, p, sizeof(x));
    return x;
}

static inline uint16_t get16(const uint8_t *p)
{
    uint16_t x = 0;
    __builtin_memcpy(&x, p, sizeof(x));
    return x;
}

static inline void put32(uint8_t *p, uint32_t x)
{
    __builtin_memcpy(p, &x, sizeof(x));
}

static inline void put16(uint8_t *p, uint16_t x)
{
    __builtin_memcpy(p, &x, sizeof(x));
}

static inline uint16_t bf16_of(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t is_nan = (bits & UINT32_C(0x7fffffff)) > F32_INF ? UINT32_MAX : 0;
    uint32_t half = UINT32_C(0x7fff) + ((bits >> 16) & 1U);
    /* rounding could make a NaN an infinity, so the fraction of a NaN is cut, and its quiet bit is set */
    return (uint16_t)((bits + (half & ~is_nan)) >> 16 | (is_nan & UINT32_C(0x40)));
}

static inline uint16_t f16_of(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t sign = bits >> 16 & UINT32_C(0x8000);
    uint32_t abs = bits & UINT32_C(0x7fffffff);
    /* a float16 from 2^-14 on is a normal number: the exponent's bias changes from 127 to 15 */
    uint32_t normal = (abs - (UINT32_C(112) << 23) + UINT32_C(0xfff) + ((abs >> 13) & 1U)) >> 13;
    normal = normal > UINT32_C(0x7c00) ? UINT32_C(0x7c00) : normal;
    /* below 2^-14 the result is n * 2^-24: n is the fraction, shifted right by 14 to 24; a shift by 25 gives 0 */
    /* 112 is the highest exponent below 2^-14; for higher ones `normal` is taken and `tiny` does not count */
    uint32_t exponent = abs >> 23 < 112U ? abs >> 23 : 112U;
    uint32_t shift = exponent > 101U ? 126U - exponent : 25U;
    uint32_t fraction = (abs & UINT32_C(0x7fffff)) | UINT32_C(0x800000);
    uint32_t tiny = (fraction + ((UINT32_C(1) << (shift - 1U)) - 1U) + ((fraction >> shift) & 1U)) >> shift;
    uint32_t nan = UINT32_C(0x7e00) | (abs >> 13 & UINT32_C(0x1ff));
    uint32_t h = abs >= (UINT32_C(113) << 23) ? normal : tiny;
    return (uint16_t)(sign | (abs > F32_INF ? nan : h));
}

static inline float f16_value(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000U) << 16;
    uint32_t abs = h & 0x7fffU;
    uint32_t normal = (abs << 13) + (abs >= 0x7c00U ? UINT32_C(224) << 23 : UINT32_C(112) << 23);
    uint32_t tiny = bits_of((float)(int32_t)abs * 0x1p-24F); /* exact */
    uint32_t quiet = abs > 0x7c00U ? UINT32_C(0x400000) : 0; /* a NaN becomes quiet, as by the CPU's instruction */
    return float_of(sign | quiet | (abs < 0x400U ? tiny : normal));
}

PSI_CLONES
static void narrow_bf16(const uint8_t *restrict src, uint8_t *restrict dst, size_t n)
{
    size_t done = 0;
    for (; n - done >= LINE; done += LINE) {
        __builtin_prefetch(src + done * 4 + AHEAD_BYTES);
        for (size_t i = done; i < done + LINE; i++) {
            put16(dst + i * 2, bf16_of(float_of(get32(src + i * 4))));
        }
    }
    for (; done < n; done++) {
        put16(dst + done * 2, bf16_of(float_of(get32(src + done * 4))));
    }
}

PSI_CLONES
static void widen_bf16(const uint8_t *restrict src, uint8_t *restrict dst, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        put32(dst + i * 4, bits_of(psi_bf16_value(get16(src + i * 2))));
    }
}

/* narrow_f16c() and widen_f16c() use the CPU's instructions, ten times as fast as a loop, and return how many values they did. */
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

enum { EIGHT = 8 };

static bool has_f16c(void)
{
    enum { NOT_ASKED, NO, YES };
    static atomic_int answer; /* asked once and kept, because CPUID is slow on a virtual machine */
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known == NOT_ASKED) {
        unsigned a = 0;
        unsigned b = 0;
        unsigned c = 0;
        unsigned d = 0;
        bool has = __builtin_cpu_supports("avx") && __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
        known = has ? YES : NO;
        atomic_store_explicit(&answer, known, memory_order_relaxed);
    }
    return known == YES;
}

__attribute__((target("avx,f16c"))) static size_t narrow_f16c(const uint8_t *src, uint8_t *dst, size_t n)
{
    size_t i = 0;
    for (; n - i >= EIGHT; i += EIGHT) {
        __builtin_prefetch(src + i * 4 + AHEAD_BYTES);
        __m128i eight = _mm256_cvtps_ph(_mm256_loadu_ps((const float *)(const void *)(src + i * 4)), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(dst + i * 2), eight);
    }
    return i;
}

__attribute__((target("avx,f16c"))) static size_t widen_f16c(const uint8_t *src, uint8_t *dst, size_t n)
{
    size_t i = 0;
    for (; n - i >= EIGHT; i += EIGHT) {
        __m256 eight = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(src + i * 2)));
        _mm256_storeu_ps((float *)(void *)(dst + i * 4), eight);
    }
    return i;
}
#else
static bool has_f16c(void)
{
    return false;
}
#define narrow_f16c(src, dst, n) ((size_t)0)
#define widen_f16c(src, dst, n) ((size_t)0)
#endif

static void narrow_f16(const uint8_t *restrict src, uint8_t *restrict dst, size_t n)
{
    for (size_t i = has_f16c() ? narrow_f16c(src, dst, n) : 0; i < n; i++) {
        put16(dst + i * 2, f16_of(float_of(get32(src + i * 4))));
    }
}

static void widen_f16(const uint8_t *restrict src, uint8_t *restrict dst, size_t n)
{
    for (size_t i = has_f16c() ? widen_f16c(src, dst, n) : 0; i < n; i++) {
        put32(dst + i * 4, bits_of(f16_value(get16(src + i * 2))));
    }
}

bool psi_half_is(ps_dtype dtype)
{
    return dtype == PS_F16 || dtype == PS_BF16;
}

uint16_t psi_half_of(ps_dtype dtype, float x)
{
    PSI_ASSERT(psi_half_is(dtype));
    return dtype == PS_F16 ? f16_of(x) : bf16_of(x);
}

float psi_half_value(ps_dtype dtype, uint16_t bits)
{
    PSI_ASSERT(psi_half_is(dtype));
    return dtype == PS_F16 ? f16_value(bits) : psi_bf16_value(bits);
}

void psi_half_narrow(ps_dtype dtype, const void *src, void *dst, size_t n)
{
    PSI_ASSERT(psi_half_is(dtype));
    (dtype == PS_F16 ? narrow_f16 : narrow_bf16)(src, dst, n);
}

void psi_half_widen(ps_dtype dtype, const void *src, void *dst, size_t n)
{
    PSI_ASSERT(psi_half_is(dtype));
    (dtype == PS_F16 ? widen_f16 : widen_bf16)(src, dst, n);
}

double psi_half_max(ps_dtype dtype)
{
    return dtype == PS_F16 ? 65504.0 : 0x1.fep127;
}

uint16_t psi_half_below(uint16_t bits)
{
    if (bits == 0 || bits == 0x8000U) {
        return 0x8001U; /* the next value below a zero of either sign */
    }
    return (uint16_t)((bits & 0x8000U) == 0 ? bits - 1U : bits + 1U);
}
