/* SPDX-License-Identifier: Apache-2.0 */
/* FNV-1a and SipHash-1-3, from their definitions. No failure modes. */
#include "hash.h"

uint64_t psi_fnv1a64(uint64_t h, const void *p, size_t n)
{
    const uint8_t *bytes = p;
    for (size_t i = 0; i < n; i++) {
        h = (h ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return h;
}

struct sip {
    uint64_t a, b, c, d;
};

static inline uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

static inline void sip_round(struct sip *s)
{
    s->a += s->b;
    s->c += s->d;
    s->b = rotl(s->b, 13) ^ s->a;
    s->d = rotl(s->d, 16) ^ s->c;
    s->a = rotl(s->a, 32);
    s->c += s->b;
    s->a += s->d;
    s->b = rotl(s->b, 17) ^ s->c;
    s->d = rotl(s->d, 21) ^ s->a;
    s->c = rotl(s->c, 32);
}

static inline struct sip sip_start(const uint64_t key[2])
{
    return (struct sip){
        .a = key[0] ^ UINT64_C(0x736f6d6570736575),
        .b = key[1] ^ UINT64_C(0x646f72616e646f6d),
        .c = key[0] ^ UINT64_C(0x6c7967656e657261),
        .d = key[1] ^ UINT64_C(0x7465646279746573),
    };
}

static inline void sip_word(struct sip *s, uint64_t w)
{
    s->d ^= w;
    sip_round(s);
    s->a ^= w;
}

static inline uint64_t sip_end(struct sip *s)
{
    s->c ^= 0xff;
    sip_round(s);
    sip_round(s);
    sip_round(s);
    return s->a ^ s->b ^ s->c ^ s->d;
}

static inline uint64_t load_le64(const uint8_t *p)
{
    uint64_t w = 0;
    for (unsigned int i = 0; i < 8; i++) {
        w |= (uint64_t)p[i] << (8 * i);
    }
    return w;
}

uint64_t psi_siphash13(const uint64_t key[2], const void *p, size_t n)
{
    const uint8_t *bytes = p;
    struct sip s = sip_start(key);
    size_t whole = n & ~(size_t)7;
    for (size_t i = 0; i < whole; i += 8) {
        sip_word(&s, load_le64(bytes + i));
    }
    uint64_t last = (uint64_t)n << 56;
    for (size_t i = whole; i < n; i++) {
        last |= (uint64_t)bytes[i] << (8 * (i - whole));
    }
    sip_word(&s, last);
    return sip_end(&s);
}

uint64_t psi_siphash13_u64(const uint64_t key[2], uint64_t v)
{
    struct sip s = sip_start(key);
    sip_word(&s, v);
    sip_word(&s, (uint64_t)8 << 56);
    return sip_end(&s);
}
