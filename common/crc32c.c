/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C. On x86-64 with SSE4.2 and PCLMULQDQ, psi_crc32c() gives long pieces to ISA-L, if the build found it: with AVX-512 ISA-L
 * is 3 times as fast as psi_crc32c_own(). The latter computes three CRCs side by side, because a crc32 instruction takes three
 * cycles, and joins them by carry-less products. Other CPUs use eight tables (slicing by 8), made at first use. Cannot fail.
 *
 * Folding: fold() does two things that ISA-L does not do: it prefetches, and it searches the data for numbers with given bits. It
 * needs AVX-512 and VPCLMULQDQ. Four registers hold 256 bytes. A step turns them into 256 bytes that have, 256 bytes further on,
 * an equal effect on the CRC, and adds the data that lie there. At the end the four registers become one, and the CRC of its 64
 * bytes is computed as for other bytes. With H and L the first and the last eight bytes of a lane of 16, the lane times x^2048 is
 * H * x^(2048 + 64) + L * x^2048. A reflected product brings a factor x, so the exponents of the two constants are 1 less.
 *
 * Joining: a block of n zero bytes turns a CRC register a into a * x^(8n) mod P. A reflected 64-bit product of a and k, put
 * through one crc32 step, is a * k * x^33 mod P (x^32 of the step, x^1 of the reflected product), so k = x^(8n - 33) mod P. The
 * four constants below are such k, reflected. */
#include "crc32c.h"

#include <pthread.h>
#include <stdbool.h>
#include <string.h>

static uint32_t tables[8][256];
static pthread_once_t tables_once = PTHREAD_ONCE_INIT;

static void make_tables(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) != 0 ? UINT32_C(0x82f63b78) : 0);
        }
        tables[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++) {
        for (int t = 1; t < 8; t++) {
            tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
        }
    }
}

uint32_t psi_crc32c_software(uint32_t crc, const void *p, size_t n)
{
    (void)pthread_once(&tables_once, make_tables);
    const uint8_t *bytes = p;
    uint32_t c = ~crc;
    while (n >= 8) {
        uint32_t low = c ^ ((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24);
        c = tables[7][low & 0xff] ^ tables[6][(low >> 8) & 0xff] ^ tables[5][(low >> 16) & 0xff] ^ tables[4][low >> 24] ^
            tables[3][bytes[4]] ^ tables[2][bytes[5]] ^ tables[1][bytes[6]] ^ tables[0][bytes[7]];
        bytes += 8;
        n -= 8;
    }
    for (; n > 0; n--) {
        c = (c >> 8) ^ tables[0][(c ^ *bytes++) & 0xff];
    }
    return ~c;
}

#if defined(__x86_64__)
#include <immintrin.h>
#ifdef PSI_ISAL
#include <dlfcn.h>
#include <stdatomic.h>
#endif

enum {
    ISAL_MIN_BYTES = 128, /* for fewer bytes, the call of ISA-L costs more than it saves */
    LONG_BYTES = 5456,    /* bytes of a stream: 4 times three streams, and 64 bytes, are the 64 KiB of a frame's segment */
    SHORT_BYTES = 128
};
#define LONG_SHIFT_2 UINT64_C(0x562cc096) /* x^(8 * 2 * 5456 - 33) modulo the CRC's polynomial P */
#define LONG_SHIFT_1 UINT64_C(0x5d4c91fc)
#define SHORT_SHIFT_2 UINT64_C(0xb9e02b86)
#define SHORT_SHIFT_1 UINT64_C(0x0d3b6092)

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return v;
}

__attribute__((target("sse4.2,pclmul"))) static inline uint64_t shift(uint64_t crc, uint64_t constant)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi64_si128((long long)constant), 0);
    return (uint64_t)_mm_cvtsi128_si64(product);
}

/* Returns the CRC register after three neighbouring blocks of `block` bytes at p. a: the register before these blocks. */
__attribute__((target("sse4.2,pclmul"))) static inline uint64_t three_blocks(uint64_t a, const uint8_t *p, size_t block,
                                                                             uint64_t shift2, uint64_t shift1)
{
    uint64_t b = 0;
    uint64_t c = 0;
    /* prefetched: the streams are too short for the CPU's own prefetcher. A prefetch past the end does no harm */
    const uint8_t *next = p + 3 * block;
    for (const uint8_t *end = p + block; p < end; p += 16, next += 48) {
        __builtin_prefetch(next);
        a = _mm_crc32_u64(a, load64(p));
        b = _mm_crc32_u64(b, load64(p + block));
        c = _mm_crc32_u64(c, load64(p + 2 * block));
        a = _mm_crc32_u64(a, load64(p + 8));
        b = _mm_crc32_u64(b, load64(p + block + 8));
        c = _mm_crc32_u64(c, load64(p + 2 * block + 8));
    }
    return c ^ _mm_crc32_u64(0, shift(a, shift2) ^ shift(b, shift1));
}

__attribute__((target("sse4.2,pclmul"))) static uint32_t crc32c_hardware(uint32_t crc, const void *p, size_t n)
{
    const uint8_t *bytes = p;
    uint64_t c = (uint32_t)~crc;
    for (; n >= 3 * LONG_BYTES; n -= 3 * LONG_BYTES, bytes += 3 * LONG_BYTES) {
        c = three_blocks(c, bytes, LONG_BYTES, LONG_SHIFT_2, LONG_SHIFT_1);
    }
    for (; n >= 3 * SHORT_BYTES; n -= 3 * SHORT_BYTES, bytes += 3 * SHORT_BYTES) {
        c = three_blocks(c, bytes, SHORT_BYTES, SHORT_SHIFT_2, SHORT_SHIFT_1);
    }
    for (; n >= 8; n -= 8, bytes += 8) {
        c = _mm_crc32_u64(c, load64(bytes));
    }
    uint32_t r = (uint32_t)c;
    for (; n > 0; n--) {
        r = _mm_crc32_u8(r, *bytes++);
    }
    return ~r;
}

static bool has_instructions(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

uint32_t psi_crc32c_own(uint32_t crc, const void *p, size_t n)
{
    return has_instructions() ? crc32c_hardware(crc, p, n) : psi_crc32c_software(crc, p, n);
}

/* ISA-L, and code of compilers without optimisation, leave values in the upper halves of the AVX registers. Each later SSE
 * instruction would wait for the old content of its register. */
__attribute__((target("avx"))) static void clear_upper_halves(void)
{
    _mm256_zeroupper();
}

/* FOLD_N: constants of a fold over N bits, x^(N - 1) mod P for a lane's last eight bytes, x^(N + 63) mod P for its first */
#define FOLD_2048 0x1426a815, 0xe9a5d8be
#define FOLD_1536 0x31c94608, 0x7ccbbbf2
#define FOLD_1024 0x7417153f, 0x6577b245
#define FOLD_512 0x75bba45b, 0x1c19243b
#define FOLD_TARGET __attribute__((target("avx512f,avx512dq,vpclmulqdq,sse4.2")))
enum {
    FOLD_BYTES = 256,
    FOLD_MIN_BYTES = 1024, /* for fewer bytes, joining the registers at the end costs more than folding saves */
    FOLD_AHEAD_BYTES = 4096
};

static bool can_fold(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("vpclmulqdq");
}

FOLD_TARGET static inline __m512i fold_by(uint32_t last, uint32_t first)
{
    return _mm512_broadcast_i32x4(_mm_set_epi32((int)last, 0, (int)first, 0));
}

FOLD_TARGET static inline __m512i folded(__m512i a, __m512i k, __m512i data)
{
    __m512i first = _mm512_clmulepi64_epi128(a, k, 0x00);
    __m512i last = _mm512_clmulepi64_epi128(a, k, 0x11);
    return _mm512_ternarylogic_epi64(first, last, data, 0x96);
}

/* lowest_of() gives the lowest bit of each run of set bits in `bits`, above_of() the bit above each run. */
static uint64_t lowest_of(uint64_t bits)
{
    return bits & ~(bits << 1);
}

static uint64_t above_of(uint64_t bits)
{
    return (bits << 1) & ~bits;
}

/* Continue crc over the n bytes at p; n is a multiple of FOLD_BYTES, not 0. far: prefetch; a prefetch past the end does no harm.
 * bits: a mask of runs of bits; 0: none. *hit becomes true if a number in p has all bits of a run set: adding the run's lowest
 * bit to such a number carries into the bit above the run. */
FOLD_TARGET static inline __attribute__((always_inline)) uint32_t fold(uint32_t crc, const uint8_t *p, size_t n, bool far,
                                                                       uint64_t bits, bool *hit)
{
    const __m512i k = fold_by(FOLD_2048);
    const __m512i wanted = _mm512_set1_epi64((long long)bits);
    const __m512i lowest = _mm512_set1_epi64((long long)lowest_of(bits));
    __m512i over = _mm512_setzero_si512();
    __m512i a[4]; /* the compiler keeps these in registers, because every loop over them is unrolled */
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        a[i] = _mm512_setzero_si512();
    }
    __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc));
    for (const uint8_t *end = p + n; p < end; p += FOLD_BYTES) {
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
            if (far) {
                __builtin_prefetch(p + 64 * i + FOLD_AHEAD_BYTES);
            }
            __m512i data = _mm512_loadu_si512(p + 64 * i);
            if (bits != 0) {
                over = _mm512_or_si512(over, _mm512_add_epi32(_mm512_and_si512(data, wanted), lowest));
            }
            a[i] = folded(a[i], k, data);
        }
        a[0] = _mm512_xor_si512(a[0], start);
        start = _mm512_setzero_si512();
    }
    __m512i sum = folded(a[2], fold_by(FOLD_512), a[3]);
    sum = folded(a[1], fold_by(FOLD_1024), sum);
    sum = folded(a[0], fold_by(FOLD_1536), sum);
    uint64_t left[8];
    uint64_t c = 0;
    _mm512_storeu_si512(left, sum);
    for (size_t i = 0; i < 8; i++) {
        c = _mm_crc32_u64(c, left[i]);
    }
    if (bits != 0) {
        *hit = _mm512_test_epi64_mask(over, _mm512_set1_epi64((long long)above_of(bits))) != 0;
    }
    return ~(uint32_t)c;
}

FOLD_TARGET static uint32_t fold_far(uint32_t crc, const uint8_t *p, size_t n)
{
    return fold(crc, p, n, true, 0, NULL);
}

FOLD_TARGET static uint32_t fold_watch(uint32_t crc, const uint8_t *p, size_t n, uint64_t bits, bool *hit)
{
    return fold(crc, p, n, false, bits, hit);
}

uint32_t psi_crc32c_far(uint32_t crc, const void *p, size_t n)
{
    size_t folded = n / FOLD_BYTES * FOLD_BYTES;
    if (n < FOLD_MIN_BYTES || !can_fold()) {
        return psi_crc32c_own(crc, p, n);
    }
    crc = fold_far(crc, p, folded);
    clear_upper_halves();
    return psi_crc32c_own(crc, (const uint8_t *)p + folded, n - folded);
}

uint32_t psi_crc32c_watch(uint32_t crc, const void *p, size_t n, uint64_t bits, bool *out_none)
{
    size_t folded = n / FOLD_BYTES * FOLD_BYTES;
    const uint8_t *rest = (const uint8_t *)p + folded;
    bool hit = n % 8 != 0;
    *out_none = false;
    if (n < FOLD_MIN_BYTES || !can_fold()) {
        return psi_crc32c(crc, p, n);
    }
    for (size_t i = 0; i + 8 <= n - folded; i += 8) {
        hit = hit || (((load64(rest + i) & bits) + lowest_of(bits)) & above_of(bits)) != 0;
    }
    bool hit_before = false;
    crc = fold_watch(crc, p, folded, bits, &hit_before);
    clear_upper_halves();
    *out_none = !hit && !hit_before;
    return psi_crc32c(crc, rest, n - folded);
}

#ifdef PSI_ISAL
/* Type of ISA-L's crc32_iscsi(). inverted: CRC of the bytes before, all bits inverted; the returned CRC is inverted as well. */
typedef uint32_t isal_fn(unsigned char *p, int n, uint32_t inverted);

static uint32_t isal_absent(unsigned char *p, int n, uint32_t inverted)
{
    return ~psi_crc32c_own(~inverted, p, (size_t)n);
}

static isal_fn isal_open;
static isal_fn *_Atomic isal = isal_open;

/* The first call of ISA-L's function comes here: load the library, then compute the CRC by it. A program that never needs a CRC
 * thus never loads it. Several threads may do this at the same time. */
static uint32_t isal_open(unsigned char *p, int n, uint32_t inverted)
{
    isal_fn *found = NULL;
    void *library = dlopen("libisal.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library != NULL) {
        *(void **)&found = dlsym(library, "crc32_iscsi");
    }
    atomic_store_explicit(&isal, found != NULL ? found : isal_absent, memory_order_relaxed);
    return (found != NULL ? found : isal_absent)(p, n, inverted);
}

uint32_t psi_crc32c(uint32_t crc, const void *p, size_t n)
{
    if (n < ISAL_MIN_BYTES || n > INT32_MAX || !has_instructions()) {
        return psi_crc32c_own(crc, p, n);
    }
    crc = ~atomic_load_explicit(&isal, memory_order_relaxed)((unsigned char *)(uintptr_t)p, (int)n, ~crc);
    if (__builtin_cpu_supports("avx")) {
        clear_upper_halves();
    }
    return crc;
}
#else
uint32_t psi_crc32c(uint32_t crc, const void *p, size_t n)
{
    return psi_crc32c_own(crc, p, n);
}
#endif
#else
uint32_t psi_crc32c_own(uint32_t crc, const void *p, size_t n)
{
    return psi_crc32c_software(crc, p, n);
}

uint32_t psi_crc32c_far(uint32_t crc, const void *p, size_t n)
{
    return psi_crc32c_software(crc, p, n);
}

uint32_t psi_crc32c_watch(uint32_t crc, const void *p, size_t n, uint64_t bits, bool *out_none)
{
    (void)bits;
    *out_none = false;
    return psi_crc32c_software(crc, p, n);
}

uint32_t psi_crc32c(uint32_t crc, const void *p, size_t n)
{
    return psi_crc32c_software(crc, p, n);
}
#endif
