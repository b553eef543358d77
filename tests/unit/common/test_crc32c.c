/* SPDX-License-Identifier: Apache-2.0 */
/* common/crc32c.c: published values, and every way against the bit-by-bit definition at every length that changes the path. */
#include "test.h"

#include "common/crc32c.h"

#include <stdlib.h>

static uint32_t by_definition(uint32_t crc, const uint8_t *p, size_t n)
{
    uint32_t c = ~crc;
    for (size_t i = 0; i < n; i++) {
        c ^= p[i];
        for (int bit = 0; bit < 8; bit++) {
            c = (c & 1) != 0 ? (c >> 1) ^ UINT32_C(0x82f63b78) : c >> 1;
        }
    }
    return ~c;
}

/* exponents */
#define WATCH_F32 UINT64_C(0x7f8000007f800000)
#define WATCH_F64 UINT64_C(0x7ff0000000000000)
#define WATCH_F16 UINT64_C(0x7c007c007c007c00)
#define WATCH_BF16 UINT64_C(0x7f807f807f807f80)

TEST(test_published_values)
{
    uint8_t bytes[32];
    struct {
        uint32_t (*crc)(uint32_t, const void *, size_t);
    } ways[] = {{psi_crc32c}, {psi_crc32c_own}, {psi_crc32c_far}, {psi_crc32c_software}};
    for (size_t w = 0; w < ARRAY_COUNT(ways); w++) {
        assert_int_equal(ways[w].crc(0, "123456789", 9), 0xe3069283);
        assert_int_equal(ways[w].crc(0, NULL, 0), 0);
        assert_int_equal(ways[w].crc(0x12345678, NULL, 0), 0x12345678);
        /* RFC 3720, B.4 */
        memset(bytes, 0, sizeof(bytes));
        assert_int_equal(ways[w].crc(0, bytes, sizeof(bytes)), 0x8a9136aa);
        memset(bytes, 0xff, sizeof(bytes));
        assert_int_equal(ways[w].crc(0, bytes, sizeof(bytes)), 0x62a8ab43);
        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (uint8_t)i;
        }
        assert_int_equal(ways[w].crc(0, bytes, sizeof(bytes)), 0x46dd794e);
        for (size_t i = 0; i < sizeof(bytes); i++) {
            bytes[i] = (uint8_t)(31 - i);
        }
        assert_int_equal(ways[w].crc(0, bytes, sizeof(bytes)), 0x113fdb5c);
    }
}

TEST(test_lengths_and_alignments)
{
    const size_t room = 66000;
    uint8_t *bytes = test_alloc(room + 16);
    for (size_t i = 0; i < room + 16; i++) {
        bytes[i] = (uint8_t)((i * i * 2654435761u) >> 13);
    }
    static const size_t edges[] = {384, 768, 1024, 1280, 5456, 16368, 16752, 32736, 65472, 65536};
    for (size_t n = 0; n < 900; n++) {
        uint32_t expected = by_definition((uint32_t)n, bytes + n % 16, n);
        assert_int_equal(psi_crc32c((uint32_t)n, bytes + n % 16, n), expected);
        assert_int_equal(psi_crc32c_own((uint32_t)n, bytes + n % 16, n), expected);
        assert_int_equal(psi_crc32c_far((uint32_t)n, bytes + n % 16, n), expected);
        assert_int_equal(psi_crc32c_software((uint32_t)n, bytes + n % 16, n), expected);
    }
    for (size_t e = 0; e < ARRAY_COUNT(edges); e++) {
        for (size_t n = edges[e] - 9; n <= edges[e] + 9; n += 3) {
            uint32_t expected = by_definition(0xffffffff, bytes + n % 16, n);
            assert_int_equal(psi_crc32c(0xffffffff, bytes + n % 16, n), expected);
            assert_int_equal(psi_crc32c_own(0xffffffff, bytes + n % 16, n), expected);
            assert_int_equal(psi_crc32c_far(0xffffffff, bytes + n % 16, n), expected);
            assert_int_equal(psi_crc32c_far(7, bytes + n % 16, n), by_definition(7, bytes + n % 16, n));
            bool none = false;
            assert_int_equal(psi_crc32c_watch(7, bytes + n % 16, n, WATCH_F32, &none), by_definition(7, bytes + n % 16, n));
            assert_int_equal(psi_crc32c_software(0xffffffff, bytes + n % 16, n), expected);
        }
    }
}

static bool watches(void)
{
#if defined(__x86_64__)
    return __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("vpclmulqdq");
#else
    return false;
#endif
}

/* A number with all of the bits is seen wherever it lies, its neighbours that lack one of them are not. */
TEST(test_watch)
{
    static const struct {
        uint64_t bits; /* of a float's exponent, in each of 64 */
        size_t bytes;  /* of the float */
        uint64_t bad, sound;
    } kinds[] = {{WATCH_F32, 4, 0xff800000, 0xff7fffff},
                 {WATCH_F32, 4, 0x7f800001, 0x7effffff},
                 {WATCH_BF16, 2, 0x7fc0, 0xff7f},
                 {WATCH_F16, 2, 0xfc00, 0x7bff},
                 {WATCH_F64, 8, 0x7ff0000000000001, 0xffefffffffffffff}};
    enum { ROOM = 2048 + 24 };
    uint8_t bytes[ROOM];
    bool none = false;
    for (size_t k = 0; k < ARRAY_COUNT(kinds); k++) {
        for (size_t i = 0; i < ROOM; i += kinds[k].bytes) {
            memcpy(bytes + i, &kinds[k].sound, kinds[k].bytes);
        }
        uint32_t whole = psi_crc32c_own(5, bytes, ROOM);
        assert_int_equal(psi_crc32c_watch(5, bytes, ROOM, kinds[k].bits, &none), whole);
        assert_true(none == watches()); /* it is not told on every processor */
        for (size_t i = 0; i < ROOM; i += kinds[k].bytes) {
            memcpy(bytes + i, &kinds[k].bad, kinds[k].bytes);
            none = true;
            assert_int_equal(psi_crc32c_watch(5, bytes, ROOM, kinds[k].bits, &none), psi_crc32c_own(5, bytes, ROOM));
            assert_false(none);
            memcpy(bytes + i, &kinds[k].sound, kinds[k].bytes);
        }
        none = true;
        (void)psi_crc32c_watch(5, bytes, 64, kinds[k].bits, &none);
        assert_false(none); /* too short */
        none = true;
        (void)psi_crc32c_watch(5, bytes, ROOM - 4, kinds[k].bits, &none);
        assert_false(none); /* not whole numbers of 8 bytes */
    }
}

TEST(test_parts_and_flips)
{
    uint8_t bytes[2000];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 37);
    }
    uint32_t whole = psi_crc32c(0, bytes, sizeof(bytes));
    assert_int_equal(psi_crc32c_own(0, bytes, sizeof(bytes)), whole);
    for (size_t cut = 0; cut <= sizeof(bytes); cut += 13) {
        assert_int_equal(psi_crc32c(psi_crc32c(0, bytes, cut), bytes + cut, sizeof(bytes) - cut), whole);
        assert_int_equal(psi_crc32c(psi_crc32c_own(0, bytes, cut), bytes + cut, sizeof(bytes) - cut), whole);
    }
    for (size_t bit = 0; bit < sizeof(bytes) * 8; bit += 7) {
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ (1u << (bit % 8)));
        assert_int_not_equal(psi_crc32c(0, bytes, sizeof(bytes)), whole);
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ (1u << (bit % 8)));
    }
}

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

/* Parts of the vector registers that are not in their first state: bit 2, bits 128 to 255; bit 6, bits 256 to 511. */
static uint32_t upper_halves(void)
{
    uint32_t low = 0;
    uint32_t high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
    return low & (1u << 2 | 1u << 6);
}

__attribute__((target("avx"))) static uint32_t used(void)
{
    __asm__ volatile("vcmptrueps %%ymm0, %%ymm0, %%ymm0" : : : "xmm0");
    return upper_halves();
}

__attribute__((target("avx"))) static uint32_t cleared(void)
{
    _mm256_zeroupper();
    return upper_halves();
}

/* Code of SSE is several times as slow while they are in use. */
TEST(test_upper_halves_are_left_alone)
{
    uint8_t bytes[4096] = {0};
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    bool tells = __builtin_cpu_supports("avx") && __get_cpuid_count(13, 1, &a, &b, &c, &d) != 0 && (a & 4) != 0;
    if (!tells || used() == 0 || cleared() != 0) {
        skip(); /* the processor does not say it */
    }
    bool none = false;
    (void)psi_crc32c(0, bytes, sizeof(bytes));
    assert_int_equal(upper_halves(), 0);
    (void)psi_crc32c_far(0, bytes, sizeof(bytes));
    assert_int_equal(upper_halves(), 0);
    (void)psi_crc32c_watch(0, bytes, sizeof(bytes), WATCH_F32, &none);
    assert_int_equal(upper_halves(), 0);
}
#endif
