/* SPDX-License-Identifier: Apache-2.0 */
/* The mask of dropout, computed instead of stored, and equal for every plugin. Element i is kept if
 *   hash(key(seed, step, i / 2^20), i mod 2^20) <= last,  last = keep 2^32 - 1
 * The key is mixed once per block of 2^20 elements with 64-bit steps (SplitMix64's finaliser), the hash per element with 32-bit
 * steps only, which vectorise everywhere (xor-shift-multiply with C. Wellons' constants, applied twice with a key each). */
#ifndef PSK_MASK_H
#define PSK_MASK_H

#include "everywhere.h"

#include <stdint.h>

#define PSK_MASK_BLOCK ((int64_t)1 << 20)

PSK_EVERYWHERE uint64_t psk_mask_mix64(uint64_t v)
{
    v += 0x9e3779b97f4a7c15u;
    v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
    v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
    return v ^ (v >> 31);
}

PSK_EVERYWHERE uint32_t psk_mask_mix32(uint32_t v)
{
    v ^= v >> 16;
    v *= 0x7feb352du;
    v ^= v >> 15;
    v *= 0x846ca68bu;
    return v ^ (v >> 16);
}

PSK_EVERYWHERE uint64_t psk_mask_key(uint64_t seed, uint64_t step)
{
    return psk_mask_mix64(psk_mask_mix64(seed) ^ step);
}

/* block: i / 2^20. */
PSK_EVERYWHERE uint64_t psk_mask_block_key(uint64_t key, int64_t block)
{
    return psk_mask_mix64(key + (uint64_t)block);
}

/* Hash of element i of the block that has this key. */
PSK_EVERYWHERE uint32_t psk_mask_hash(uint64_t block_key, uint32_t i)
{
    return psk_mask_mix32(psk_mask_mix32(i ^ (uint32_t)block_key) ^ (uint32_t)(block_key >> 32));
}

/* The largest hash of an element that is kept; 2^-20 <= keep <= 1. */
PSK_EVERYWHERE uint32_t psk_mask_last(float keep)
{
    return (uint32_t)((uint64_t)((double)keep * 4294967296.0) - 1u);
}

#endif
