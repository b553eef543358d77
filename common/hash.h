/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes. FNV-1a is for values that every program must compute equally, and for tokens and identities. SipHash has a secret key:
 * it is for what a peer may choose, such as the keys of a map, and for random numbers. Pure, any thread. */
#ifndef PSI_HASH_H
#define PSI_HASH_H

#include <stddef.h>
#include <stdint.h>

#define PSI_FNV1A64_START UINT64_C(0xcbf29ce484222325)

/** Continue the hash h over n more bytes; h is PSI_FNV1A64_START for the first bytes. */
uint64_t psi_fnv1a64(uint64_t h, const void *p, size_t n);
/** SipHash-1-3 of n bytes under a 128-bit key (Aumasson and Bernstein 2012, with 1 and 3 rounds). */
uint64_t psi_siphash13(const uint64_t key[2], const void *p, size_t n);
uint64_t psi_siphash13_u64(const uint64_t key[2], uint64_t v);

#endif
