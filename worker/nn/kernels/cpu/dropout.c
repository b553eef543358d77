/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inverted dropout with a mask that is computed, not stored:
 *   out_i = hash(key(seed, step, i / 2^20), i mod 2^20) < keep 2^32 ? in_i / keep : 0
 * The key is mixed once per block of 2^20 elements with 64-bit steps (SplitMix64's finaliser), the hash per element with 32-bit
 * steps only, which vectorise everywhere (xor-shift-multiply with C. Wellons' constants, applied twice with a key each).
 * There are no failure modes.
 */
#include "cpu.h"

#include "common/clones.h"

#define BLOCK_ELEMENTS ((int64_t)1 << 20)

static uint64_t mix64(uint64_t v)
{
    v += 0x9e3779b97f4a7c15u;
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
    return v ^ (v >> 31);
}

static inline uint32_t mix32(uint32_t v)
{
    v ^= v >> 16;
    v *= 0x7feb352du;
    v ^= v >> 15;
    v *= 0x846ca68bu;
    return v ^ (v >> 16);
}

/* last: the largest hash that keeps */
PSI_CLONES static void psk_clone_dropout(const float *in, float *out, uint32_t n, uint64_t key, uint32_t last, float scale)
{
    const uint32_t key_low = (uint32_t)key;
    const uint32_t key_high = (uint32_t)(key >> 32);
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t h = mix32(mix32(i ^ key_low) ^ key_high);
        const float kept = in[i] * scale;
        out[i] = h <= last ? kept : 0.0f;
    }
}

void psk_cpu_dropout(const float *in, float *out, int64_t count, uint64_t seed, float keep, uint64_t step)
{
    const uint32_t last = (uint32_t)((uint64_t)((double)keep * 4294967296.0) - 1u);
    const float scale = 1.0f / keep;
    const uint64_t key = mix64(mix64(seed) ^ step);
    for (int64_t at = 0; at < count; at += BLOCK_ELEMENTS) {
        const int64_t n = count - at < BLOCK_ELEMENTS ? count - at : BLOCK_ELEMENTS;
        psk_clone_dropout(in + at, out + at, (uint32_t)n, mix64(key + (uint64_t)(at / BLOCK_ELEMENTS)), last, scale);
    }
}
