/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inverted dropout with a mask that is computed (worker/nn/kernels/mask.h), not stored: out_i = kept_i ? in_i / keep : 0.
 * There are no failure modes.
 */
#include "cpu.h"

#include "common/clones.h"
#include "worker/nn/kernels/mask.h"

PSI_CLONES static void psk_clone_dropout(const float *in, float *out, uint32_t n, uint64_t key, uint32_t last, float scale)
{
    for (uint32_t i = 0; i < n; i++) {
        const float kept = in[i] * scale;
        out[i] = psk_mask_hash(key, i) <= last ? kept : 0.0f;
    }
}

void psk_cpu_dropout(const float *in, float *out, int64_t count, uint64_t seed, float keep, uint64_t step)
{
    const uint32_t last = psk_mask_last(keep);
    const float scale = 1.0f / keep;
    const uint64_t key = psk_mask_key(seed, step);
    for (int64_t at = 0; at < count; at += PSK_MASK_BLOCK) {
        const int64_t n = count - at < PSK_MASK_BLOCK ? count - at : PSK_MASK_BLOCK;
        psk_clone_dropout(in + at, out + at, (uint32_t)n, psk_mask_block_key(key, at / PSK_MASK_BLOCK), last, scale);
    }
}
