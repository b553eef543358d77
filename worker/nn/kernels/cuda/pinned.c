/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory that the device copies from and to: arenas that CUDA has page-locked once, and parts of them. Page-locking takes
 * about a millisecond per 4 MiB and stops the device. So small requests share arenas, which are kept; a request larger than an
 * arena gets an arena of its own, which is freed with the memory. An arena is covered by a list of free and used spans; the first
 * free span that is large enough is taken, and free neighbours are merged. Failure mode: no memory. Any thread. */
#include "cuda.h"

#include "common/mem.h"

#include <string.h>

enum { ARENA_BYTES = 32 << 20, ALIGN_BYTES = 256 };

struct span {
    struct psi_list link; /* in the arena's list, by address */
    char *at;
    size_t bytes;
    bool used;
};

struct arena {
    struct psi_list link;
    struct psi_list spans;
    char *memory;
    size_t bytes;
};

static struct span *span_at(struct psi_list *link)
{
    return PSI_CONTAINER_OF(link, struct span, link);
}

static struct span *span_new(char *at, size_t bytes)
{
    struct span *span = psi_calloc(1, sizeof(*span));
    if (span != NULL) {
        span->at = at;
        span->bytes = bytes;
    }
    return span;
}

/* Free an arena, whose device must be this thread's current one. If the device's context is lost, so is the memory. */
static void arena_free(struct arena *arena)
{
    while (!psi_list_empty(&arena->spans)) {
        psi_free(span_at(psi_list_pop_front(&arena->spans)));
    }
    if (arena->memory != NULL) {
        PSI_IGNORE(cudaFreeHost(arena->memory));
    }
    psi_free(arena);
}

static ps_status arena_new(struct psk_device *device, size_t bytes, struct arena **out, struct psi_err *err)
{
    void *memory = NULL;
    struct arena *arena = psi_calloc(1, sizeof(*arena));
    struct span *span = span_new(NULL, bytes);
    ps_status st = arena != NULL && span != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "cuda: no memory for a record");
    if (st == PS_OK) {
        st = psk_cuda_check(device, cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "pinned memory", "cudaHostAlloc", err);
    }
    if (st != PS_OK) {
        psi_free(span);
        psi_free(arena);
        return st;
    }
    psi_list_init(&arena->spans);
    arena->memory = memory;
    arena->bytes = bytes;
    span->at = memory;
    psi_list_push_back(&arena->spans, &span->link);
    psi_list_push_back(&device->pinned.arenas, &arena->link);
    *out = arena;
    return PS_OK;
}

/* Take the first free span of at least `bytes` bytes. The rest of the span stays free. NULL: no span is large enough. */
static struct span *arena_take(struct arena *arena, size_t bytes)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &arena->spans) {
        struct span *span = span_at(it);
        if (span->used || span->bytes < bytes) {
            continue;
        }
        struct span *rest = span->bytes > bytes ? span_new(span->at + bytes, span->bytes - bytes) : NULL;
        if (rest != NULL) {
            psi_list_insert_before(span->link.next, &rest->link);
            span->bytes = bytes;
        }
        span->used = true;
        return span;
    }
    return NULL;
}

ps_status psk_cuda_pinned_new(struct psk_device *device, size_t bytes, void **out, struct psi_err *err)
{
    struct psk_cuda_pinned *pinned = &device->pinned;
    struct span *span = NULL;
    struct psi_list *it = NULL;
    ps_status st = psk_cuda_enter(device, err);
    if (st == PS_OK && bytes > SIZE_MAX - ALIGN_BYTES) {
        st = psi_fail(err, PS_RESOURCE_EXHAUSTED, "cuda: no pinned memory of %zu bytes", bytes);
    }
    if (st != PS_OK) {
        return st;
    }
    const size_t wanted = (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    (void)pthread_mutex_lock(&pinned->lock);
    PSI_LIST_FOREACH(it, &pinned->arenas) {
        span = span == NULL ? arena_take(PSI_CONTAINER_OF(it, struct arena, link), wanted) : span;
    }
    if (span == NULL) {
        struct arena *arena = NULL;
        st = arena_new(device, wanted > ARENA_BYTES ? wanted : ARENA_BYTES, &arena, err);
        span = st == PS_OK ? arena_take(arena, wanted) : NULL;
    }
    (void)pthread_mutex_unlock(&pinned->lock);
    if (st == PS_OK) {
        *out = span->at;
    }
    return st;
}

static void join_next(struct arena *arena, struct span *span)
{
    struct span *next = span_at(span->link.next);
    if (span->link.next == &arena->spans || span->used || next->used) {
        return;
    }
    span->bytes += next->bytes;
    psi_list_remove(&next->link);
    psi_free(next);
}

static void arena_give(struct arena *arena, const char *at)
{
    struct psi_list *it = psi_list_first(&arena->spans);
    while (span_at(it)->at != at) {
        it = it->next;
        PSI_ASSERT(it != &arena->spans);
    }
    span_at(it)->used = false;
    join_next(arena, span_at(it));
    if (it->prev != &arena->spans) {
        join_next(arena, span_at(it->prev));
    }
    if (arena->bytes > ARENA_BYTES) {
        psi_list_remove(&arena->link);
        arena_free(arena);
    }
}

void psk_cuda_pinned_free(struct psk_device *device, void *memory)
{
    struct psi_list *it = NULL;
    struct psi_list *next = NULL;
    const char *at = memory;
    PSI_IGNORE(psk_cuda_enter(device, NULL)); /* memory is returned also after the device has failed */
    (void)pthread_mutex_lock(&device->pinned.lock);
    PSI_LIST_FOREACH_SAFE(it, next, &device->pinned.arenas) {
        struct arena *arena = PSI_CONTAINER_OF(it, struct arena, link);
        if (at >= arena->memory && at < arena->memory + arena->bytes) {
            arena_give(arena, at);
        }
    }
    (void)pthread_mutex_unlock(&device->pinned.lock);
}

void psk_cuda_pinned_init(struct psk_cuda_pinned *pinned)
{
    (void)pthread_mutex_init(&pinned->lock, NULL);
    psi_list_init(&pinned->arenas);
}

void psk_cuda_pinned_fini(struct psk_cuda_pinned *pinned)
{
    while (!psi_list_empty(&pinned->arenas)) {
        arena_free(PSI_CONTAINER_OF(psi_list_pop_front(&pinned->arenas), struct arena, link));
    }
    (void)pthread_mutex_destroy(&pinned->lock);
}
