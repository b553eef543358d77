/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator of our own code: libc's, counted, with a fault that tests can arm. Any thread. NULL means out of memory;
 * the caller turns that into PS_RESOURCE_EXHAUSTED. A size of 0 gives a pointer that can be freed.
 */
#ifndef PSI_MEM_H
#define PSI_MEM_H

#include <stddef.h>
#include <stdint.h>

#define PSI_CACHE_LINE 64u

void *psi_malloc(size_t bytes) __attribute__((malloc, warn_unused_result));
void *psi_calloc(size_t count, size_t bytes) __attribute__((malloc, warn_unused_result)); /* NULL on overflow too */
void *psi_realloc(void *p, size_t bytes) __attribute__((warn_unused_result));             /* NULL: p is unchanged */
/** Make room for one more of count items. Returns items, which may have moved. NULL: no memory, and nothing has changed. */
void *psi_grow(void *items, size_t count, size_t *capacity, size_t item_bytes) __attribute__((warn_unused_result));
/** alignment: a power of two. Free with psi_free(). */
void *psi_aligned_malloc(size_t alignment, size_t bytes) __attribute__((malloc, warn_unused_result));
void *psi_aligned_calloc(size_t alignment, size_t bytes) __attribute__((malloc, warn_unused_result));
/** Pages of the system, aligned at `bytes`, which is a power of two of at least a page. Their content is undefined. Unlike
 * psi_aligned_malloc(), no page beside them is touched. Free with psi_pages_free(). */
void *psi_pages(size_t bytes) __attribute__((malloc, warn_unused_result));
void psi_pages_free(void *p, size_t bytes);
/** Drop the content of these bytes: whole pages among them go back to the system, and read as zeroes. For any allocation. */
void psi_forget(void *p, size_t bytes);
/** Copy len bytes, with a NUL behind them. */
char *psi_strndup(const char *s, size_t len) __attribute__((malloc, warn_unused_result));
void psi_free(void *p);
/** Bytes that the allocator takes for a piece of this size, with its head and rounding (glibc, 64 bits). */
size_t psi_malloc_bytes(size_t bytes);

/** Allocations of this process so far, with failed ones (a psi_realloc() counts as one). */
uint64_t psi_mem_count(void);
/** The n-th allocation of this thread from now on (0: the next one) returns NULL, once. -1: off. */
void psi_mem_fail_after(int64_t n);
/** What is left of the count of psi_mem_fail_after(). -1: it has fired, or is off. */
int64_t psi_mem_fail_left(void);

#endif
