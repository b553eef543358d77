/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes: FNV-1a where the value is part of a format, SipHash where a peer chooses the keys. Pure, any thread. */
#ifndef PSI_HASH_H
#define PSI_HASH_H

#include <stddef.h>
#include <stdint.h>

#define PSI_FNV1A64_START UINT64_C(0xcbf29ce484222325)

/** Continue hash h (PSI_FNV1A64_START first) over n bytes. */
uint64_t psi_fnv1a64(uint64_t h, const void *p, size_t n);
/** SipHash-1-3 of n bytes under a 128-bit key (Aumasson and Bernstein 2012, with 1 and 3 rounds). */
uint64_t psi_siphash13(const uint64_t key[2], const void *p, size_t n);
/** psi_siphash13() of the eight bytes of v, little-endian. */
uint64_t psi_siphash13_u64(const uint64_t key[2], uint64_t v);

#endif
