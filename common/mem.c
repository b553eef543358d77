/* SPDX-License-Identifier: Apache-2.0 */
/* Counted allocation with a thread-local fault. Happy path: one relaxed increment, then libc. */
#include "mem.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static _Atomic uint64_t allocation_count;
static _Thread_local int64_t fail_left = -1;

/* Count one allocation; true where it has to fail. */
static bool count_one(void)
{
    atomic_fetch_add_explicit(&allocation_count, 1, memory_order_relaxed);
    if (fail_left < 0) {
        return false;
    }
    return fail_left-- == 0;
}

void *psi_malloc(size_t bytes)
{
    return count_one() ? NULL : malloc(bytes == 0 ? 1 : bytes);
}

void *psi_calloc(size_t count, size_t bytes)
{
    size_t total = 0;
    if (count_one() || __builtin_mul_overflow(count, bytes, &total)) {
        return NULL;
    }
    if (total == 0) {
        return calloc(1, 1);
    }
    return calloc(count, bytes);
}

void *psi_realloc(void *p, size_t bytes)
{
    return count_one() ? NULL : realloc(p, bytes == 0 ? 1 : bytes);
}

void *psi_grow(void *items, size_t count, size_t *capacity, size_t item_bytes)
{
    size_t more = *capacity == 0 ? 16 : *capacity * 2;
    if (count < *capacity) {
        return items;
    }
    void *grown = psi_realloc(items, more * item_bytes);
    *capacity = grown != NULL ? more : *capacity;
    return grown;
}

void *psi_aligned_malloc(size_t alignment, size_t bytes)
{
    void *p = NULL;
    if (count_one()) {
        return NULL;
    }
    if (posix_memalign(&p, alignment < sizeof(void *) ? sizeof(void *) : alignment, bytes == 0 ? 1 : bytes) != 0) {
        return NULL;
    }
    return p;
}

void *psi_aligned_calloc(size_t alignment, size_t bytes)
{
    void *p = psi_aligned_malloc(alignment, bytes);
    return p != NULL ? memset(p, 0, bytes) : NULL;
}

char *psi_strndup(const char *s, size_t len)
{
    if (len == SIZE_MAX) {
        return NULL;
    }
    char *copy = psi_malloc(len + 1);
    if (copy != NULL) {
        memcpy(copy, s, len);
        copy[len] = '\0';
    }
    return copy;
}

void psi_free(void *p)
{
    free(p);
}

uint64_t psi_mem_count(void)
{
    return atomic_load_explicit(&allocation_count, memory_order_relaxed);
}

void psi_mem_fail_after(int64_t n)
{
    fail_left = n < 0 ? -1 : n;
}

int64_t psi_mem_fail_left(void)
{
    return fail_left;
}
