/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C (Castagnoli, reflected polynomial 0x82f63b78), as in iSCSI and ext4. Pure, any thread. */
#ifndef PSI_CRC32C_H
#define PSI_CRC32C_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * CRC of n bytes that follow those whose CRC is crc (0 to start): psi_crc32c(psi_crc32c(0, a), b) == psi_crc32c(0, a b).
 * "123456789" gives 0xe3069283. By ISA-L where the build has it and the CPU is fit for it, else as psi_crc32c_own().
 */
uint32_t psi_crc32c(uint32_t crc, const void *p, size_t n);
/** The same without a library: by SSE4.2 and PCLMULQDQ where the CPU has them, else by tables. */
uint32_t psi_crc32c_own(uint32_t crc, const void *p, size_t n);
/** The same, and the fastest one where the bytes are not in cache. */
uint32_t psi_crc32c_far(uint32_t crc, const void *p, size_t n);
/**
 * psi_crc32c(), and in the same pass a look at the bytes: *out_none is true when p is known to have no number in which all of
 * `bits` are set; false says nothing, and is what one gets of short pieces and without AVX-512.
 *
 * bits  neighbouring ones, not the highest, of a number of 16, 32 or 64 bits, again in each of 64 bits: a float's exponent.
 */
uint32_t psi_crc32c_watch(uint32_t crc, const void *p, size_t n, uint64_t bits, bool *out_none);
/** The same by tables, on every CPU. */
uint32_t psi_crc32c_software(uint32_t crc, const void *p, size_t n);

#endif
