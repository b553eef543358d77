/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations are counted (one relaxed atomic increment); a test can make one allocation of its own thread fail. */
#include "mem.h"

#include "status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static _Atomic uint64_t allocation_count;
static _Thread_local int64_t fail_left = -1;

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
    size_t larger = *capacity == 0 ? 16 : *capacity * 2;
    if (count < *capacity) {
        return items;
    }
    void *grown = psi_realloc(items, larger * item_bytes);
    *capacity = grown != NULL ? larger : *capacity;
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

/* Under the address sanitizer pages come from malloc: the leak checker follows pointers only through malloc's memory. */
#if defined(__SANITIZE_ADDRESS__)
#define PSI_PAGES_OF_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PSI_PAGES_OF_MALLOC 1
#endif
#endif

#ifdef PSI_PAGES_OF_MALLOC
void *psi_pages(size_t bytes)
{
    return psi_aligned_malloc(bytes, bytes);
}

void psi_pages_free(void *p, size_t bytes)
{
    PSI_IGNORE(bytes);
    psi_free(p);
}
#else
static void *map_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void *psi_pages(size_t bytes)
{
    if (count_one()) {
        return NULL;
    }
    uint8_t *p = map_pages(bytes); /* usually aligned already, because the kernel puts new mappings side by side */
    if (p == NULL || (uintptr_t)p % bytes == 0) {
        return p;
    }
    psi_pages_free(p, bytes);
    p = map_pages(2 * bytes);
    if (p == NULL) {
        return NULL;
    }
    const size_t before = (bytes - (uintptr_t)p % bytes) % bytes;
    if (before > 0) {
        psi_pages_free(p, before);
    }
    psi_pages_free(p + before + bytes, bytes - before);
    return p + before;
}

void psi_pages_free(void *p, size_t bytes)
{
    const int failed = p == NULL ? 0 : munmap(p, bytes);
    PSI_ASSERT(failed == 0);
}
#endif

void psi_forget(void *p, size_t bytes)
{
    const uintptr_t page = 4096, first = ((uintptr_t)p + page - 1) & ~(page - 1), end = ((uintptr_t)p + bytes) & ~(page - 1);
    if (end > first) {
        PSI_IGNORE(madvise((void *)first, end - first, MADV_DONTNEED)); /* on failure the pages stay until p is freed */
    }
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

size_t psi_malloc_bytes(size_t bytes)
{
    const size_t least = 32, head = 8, step = 16;
    return bytes + head <= least ? least : (bytes + head + step - 1) & ~(step - 1);
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
