/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator of our own code: it counts allocations, lets tests make one fail, and otherwise calls libc's. Any thread. NULL
 * means out of memory; the caller turns that into PS_RESOURCE_EXHAUSTED. A size of 0 gives a pointer that can be freed. */
#ifndef PSI_MEM_H
#define PSI_MEM_H

#include <stddef.h>
#include <stdint.h>

#define PSI_CACHE_LINE 64u

void *psi_malloc(size_t bytes) __attribute__((malloc, warn_unused_result));
/* returns NULL also if count * bytes overflows */
void *psi_calloc(size_t count, size_t bytes) __attribute__((malloc, warn_unused_result));
void *psi_realloc(void *p, size_t bytes) __attribute__((warn_unused_result)); /* NULL: no memory, and p is unchanged */
/** Make room for one more element in an array of `count` elements, allocated for *capacity elements, which this call may raise.
 * Returns the array, which may have moved. NULL: no memory, and nothing has changed. */
void *psi_grow(void *items, size_t count, size_t *capacity, size_t item_bytes) __attribute__((warn_unused_result));
/** Allocate memory at a multiple of alignment, a power of two. Free it with psi_free(). */
void *psi_aligned_malloc(size_t alignment, size_t bytes) __attribute__((malloc, warn_unused_result));
void *psi_aligned_calloc(size_t alignment, size_t bytes) __attribute__((malloc, warn_unused_result));
/** Pages of the system, aligned at `bytes`, which is a power of two of at least a page. Their content is undefined. Unlike
 * psi_aligned_malloc(), no page beside them is touched. Free with psi_pages_free(). */
void *psi_pages(size_t bytes) __attribute__((malloc, warn_unused_result));
void psi_pages_free(void *p, size_t bytes);
/** Drop the content of these bytes of any allocation: whole pages among them go back to the system, and read as zeroes. */
void psi_forget(void *p, size_t bytes);
char *psi_strndup(const char *s, size_t len) __attribute__((malloc, warn_unused_result));
void psi_free(void *p);
/** Bytes that 64-bit glibc uses for a psi_malloc() of `bytes`, with malloc's header and rounding. */
size_t psi_malloc_bytes(size_t bytes);

/** Allocations of this process so far, failed ones included; a psi_realloc() counts as one. */
uint64_t psi_mem_count(void);
/** Make the n-th allocation of this thread from now on (0: the next one) fail once with NULL. -1: none fails. */
void psi_mem_fail_after(int64_t n);
/** Number of allocations before the one that psi_mem_fail_after() makes fail. -1: it has failed already, or none was to fail. */
int64_t psi_mem_fail_left(void);

#endif
