/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C (Castagnoli, reflected polynomial 0x82f63b78), as in iSCSI and ext4. Pure, any thread. */
#ifndef PSI_CRC32C_H
#define PSI_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** CRC of n bytes behind bytes whose CRC is crc (0: there are none): psi_crc32c(psi_crc32c(0, a), b) == psi_crc32c(0, a b).
 * "123456789" gives 0xe3069283. Uses ISA-L if the build has it and the CPU is fit for it, otherwise psi_crc32c_own(). */
uint32_t psi_crc32c(uint32_t crc, const void *p, size_t n);
/** psi_crc32c() without a library: SSE4.2 and PCLMULQDQ if the CPU has them, otherwise tables. */
uint32_t psi_crc32c_own(uint32_t crc, const void *p, size_t n);
/** psi_crc32c(), computed in the way that is fastest for bytes that are not in cache. */
uint32_t psi_crc32c_far(uint32_t crc, const void *p, size_t n);
/** Compute psi_crc32c(), and in the same pass search p for numbers that have all of `bits` set, such as NaN and infinity.
 * *out_none true: there is none. False: there may be one. Always false under 1 KiB, if n % 8 != 0, and without AVX-512.
 *
 * bits  a mask: the exponent bits of a float of 16, 32 or 64 bits, repeated to fill 64 bits. A float's highest bit is not in the
 *       mask. */
uint32_t psi_crc32c_watch(uint32_t crc, const void *p, size_t n, uint64_t bits, bool *out_none);
uint32_t psi_crc32c_software(uint32_t crc, const void *p, size_t n);

#endif
