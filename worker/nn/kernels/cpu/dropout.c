/* SPDX-License-Identifier: Apache-2.0 */
/* Inverted dropout. The mask is computed (worker/nn/kernels/mask.h), not stored: out_i = kept_i ? in_i / keep : 0. */
#include "cpu.h"

#include "common/clones.h"
#include "worker/nn/kernels/mask.h"

/* Compute elements from .. end-1 of one block of the mask. key: the block's key; last: from psk_mask_last(); scale: 1 / keep. */
PSI_CLONES static void psk_clone_dropout(const float *in, float *out, uint32_t from, uint32_t end, uint64_t key, uint32_t last,
                                         float scale)
{
    for (uint32_t i = from; i < end; i++) {
        const float kept = in[i] * scale;
        out[i] = psk_mask_hash(key, i) <= last ? kept : 0.0f;
    }
}

void psk_cpu_dropout(const float *in, float *out, int64_t first, int64_t end, uint64_t seed, float keep, uint64_t step)
{
    const uint32_t last = psk_mask_last(keep);
    const float scale = 1.0f / keep;
    const uint64_t key = psk_mask_key(seed, step);
    for (int64_t block = first / PSK_MASK_BLOCK; block * PSK_MASK_BLOCK < end; block++) {
        const int64_t at = block * PSK_MASK_BLOCK;
        const int64_t from = first > at ? first - at : 0;
        const int64_t to = end - at < PSK_MASK_BLOCK ? end - at : PSK_MASK_BLOCK;
        psk_clone_dropout(in + at, out + at, (uint32_t)from, (uint32_t)to, psk_mask_block_key(key, block), last, scale);
    }
}
