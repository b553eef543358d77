/* SPDX-License-Identifier: Apache-2.0 */
/* common/hash.c: published FNV-1a values, SipHash-1-3 against a second writing of its definition. */
#include "test.h"

#include "common/hash.h"

TEST(test_fnv1a)
{
    /* the authors' test vectors (isthe.com/chongo/src/fnv/test_fnv.c) */
    assert_true(psi_fnv1a64(PSI_FNV1A64_START, "", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(psi_fnv1a64(PSI_FNV1A64_START, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(psi_fnv1a64(PSI_FNV1A64_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
    uint64_t part = psi_fnv1a64(PSI_FNV1A64_START, "foo", 3);
    assert_true(psi_fnv1a64(part, "bar", 3) == UINT64_C(0x85944171f73967e8));
}

static uint64_t rotate(uint64_t x, unsigned int bits)
{
    return x << bits | x >> (64 - bits);
}

/* The definition of the paper's section 2, state in an array, c and d rounds as parameters. */
static uint64_t reference(int c, int d, const uint64_t key[2], const uint8_t *p, size_t n)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d, key[0] ^ 0x6c7967656e657261,
                     key[1] ^ 0x7465646279746573};
    for (size_t word = 0; word <= n / 8 + 1; word++) {
        bool last = word == n / 8 + 1;
        uint64_t m = 0;
        for (size_t i = 0; i < 8 && !last; i++) {
            size_t at = word * 8 + i;
            uint64_t byte = at < n ? p[at] : (at == n / 8 * 8 + 7 ? n & 0xff : 0);
            m |= byte << (8 * i);
        }
        if (last) {
            v[2] ^= 0xff;
        } else {
            v[3] ^= m;
        }
        for (int round = 0; round < (last ? d : c); round++) {
            v[0] += v[1];
            v[2] += v[3];
            v[1] = rotate(v[1], 13);
            v[3] = rotate(v[3], 16);
            v[1] ^= v[0];
            v[3] ^= v[2];
            v[0] = rotate(v[0], 32);
            v[2] += v[1];
            v[0] += v[3];
            v[1] = rotate(v[1], 17);
            v[3] = rotate(v[3], 21);
            v[1] ^= v[2];
            v[3] ^= v[0];
            v[2] = rotate(v[2], 32);
        }
        v[0] ^= last ? 0 : m;
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

TEST(test_siphash)
{
    const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    uint8_t bytes[64];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)i;
    }
    /* the reference itself gives the paper's SipHash-2-4 value for the bytes 00 .. 0e (appendix A) */
    assert_true(reference(2, 4, key, bytes, 15) == UINT64_C(0xa129ca6149be45e5));
    for (size_t n = 0; n <= sizeof(bytes); n++) {
        assert_true(psi_siphash13(key, bytes, n) == reference(1, 3, key, bytes, n));
    }
    const uint64_t other[2] = {key[0], key[1] ^ 1};
    assert_true(psi_siphash13(key, bytes, 8) != psi_siphash13(other, bytes, 8));
    assert_true(psi_siphash13_u64(key, UINT64_C(0x0706050403020100)) == psi_siphash13(key, bytes, 8));
}
