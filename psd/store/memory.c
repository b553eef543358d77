/* SPDX-License-Identifier: Apache-2.0 */
/* The budget of one task: bytes that are promised for values, and bytes that records and buffers take.
 *
 * Happy path: before code makes an object, it asks whether the object fits (psd_store_missing()), makes it, and calls
 * psd_store_count(); it calls psd_store_uncount() when it frees the object. Failure: an object that does not fit is not made.
 * Some objects are made even above the budget, as comments at their constants say. The error says what fills the budget. */
#include "mutate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void psd_store_count(struct psd_store *s, enum psd_memory kind, uint64_t n)
{
    s->counted[kind] += n;
}

void psd_store_uncount(struct psd_store *s, enum psd_memory kind, uint64_t n)
{
    PSI_ASSERT(s->counted[kind] >= n);
    s->counted[kind] -= n;
}

/* How many of n bytes of this kind the budget counts: all; from PSD_MEMORY_SESSIONS on, those above PSD_MEMORY_FREE_BYTES. */
static uint64_t over(enum psd_memory kind, uint64_t n)
{
    const uint64_t beside = kind >= PSD_MEMORY_SESSIONS ? PSD_MEMORY_FREE_BYTES : 0;
    return n > beside ? n - beside : 0;
}

uint64_t psd_store_counted_over(const struct psd_store *s, enum psd_memory kind)
{
    return over(kind, s->counted[kind]);
}

uint64_t psd_store_taken(const struct psd_store *s)
{
    uint64_t taken = s->promised_bytes;
    for (uint32_t kind = 0; kind < PSD_MEMORY_KINDS; kind++) {
        taken += over(kind, s->counted[kind]);
    }
    return taken;
}

uint64_t psd_store_memory_bytes(const struct psd_store *s)
{
    uint64_t bytes = s->arena.taken_bytes;
    for (uint32_t kind = 0; kind < PSD_MEMORY_KINDS; kind++) {
        bytes += s->counted[kind];
    }
    return bytes;
}

struct share {
    const char *name;
    uint64_t bytes;
};

static int by_bytes(const void *a, const void *b)
{
    const struct share *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes) : strcmp(x->name, y->name);
}

const char *psd_store_memory_text(const struct psd_store *s, char text[PSD_MEMORY_TEXT_BYTES])
{
    static const char *const names[PSD_MEMORY_KINDS] = {"records of variables",  "containers", "names",    "pushes",     "rounds",
                                                        "a checkpoint's copies", "sessions",   "requests", "connections"};
    struct share shares[PSD_MEMORY_KINDS + 1];
    size_t used = 0;
    for (uint32_t kind = 0; kind < PSD_MEMORY_KINDS; kind++) {
        shares[kind] = (struct share){.name = names[kind], .bytes = psd_store_counted_over(s, kind)};
    }
    shares[PSD_MEMORY_KINDS] = (struct share){.name = "values", .bytes = s->promised_bytes};
    qsort(shares, PSD_MEMORY_KINDS + 1, sizeof(shares[0]), by_bytes);
    text[0] = '\0';
    for (size_t i = 0; i < 4 && shares[i].bytes > 0; i++) { /* only four kinds are shown, because the others are small */
        used += (size_t)snprintf(text + used, PSD_MEMORY_TEXT_BYTES - used, "%s%s %llu", i > 0 ? ", " : "", shares[i].name,
                                 (unsigned long long)shares[i].bytes); /* cannot be cut: four texts of at most 45 bytes */
    }
    return text;
}

ps_status psd_store_full(const struct psd_store *s, const char *kind, const char *name, uint64_t n, struct psi_err *err)
{
    char text[PSD_MEMORY_TEXT_BYTES];
    const bool never = n > s->budget_bytes;     /* more than the whole budget: repeating the request cannot help */
    PSI_IGNORE(psd_store_memory_text(s, text)); /* `text` is empty if no memory is in use */
    return psi_fail_as(err, never ? PS_FAILED_PRECONDITION : PS_RESOURCE_EXHAUSTED,
                       never ? PS_REASON_TOO_LARGE : PS_REASON_OVERLOADED,
                       "%s '%s' needs %llu bytes; of the memory budget of %llu bytes %llu are taken%s%s (psd --memory_budget)",
                       kind, name, (unsigned long long)n, (unsigned long long)s->budget_bytes,
                       (unsigned long long)psd_store_taken(s), text[0] != '\0' ? ": " : "", text);
}

static uint64_t above_budget(const struct psd_store *s, uint64_t taken, uint64_t n)
{
    const uint64_t left = taken < s->budget_bytes ? s->budget_bytes - taken : 0;
    return n > left ? n - left : 0;
}

uint64_t psd_store_missing(const struct psd_store *s, uint64_t n)
{
    return above_budget(s, psd_store_taken(s), n);
}

uint64_t psd_store_missing_of(const struct psd_store *s, enum psd_memory kind, uint64_t n)
{
    return above_budget(s, psd_store_taken(s), over(kind, s->counted[kind] + n) - over(kind, s->counted[kind]));
}

void psd_store_set_budget(struct psd_store *s, uint64_t budget_bytes)
{
    s->budget_lowered = psd_store_taken(s) > budget_bytes;
    s->budget_bytes = budget_bytes;
}

bool psd_store_promise(struct psd_store *s, uint64_t n)
{
    if (psd_store_missing(s, psd_arena_bytes(n)) > 0) {
        return false;
    }
    s->promised_bytes += psd_arena_bytes(n);
    return true;
}

static void *stage(struct psd_store *s, uint64_t n, void *(*alloc)(struct psd_arena *a, uint64_t bytes))
{
    if (!psd_store_promise(s, n)) {
        return NULL;
    }
    void *p = alloc(&s->arena, n);
    if (p == NULL) {
        s->promised_bytes -= psd_arena_bytes(n);
    }
    return p;
}

void *psd_store_stage(struct psd_store *s, uint64_t n)
{
    return stage(s, n, psd_arena_alloc);
}

void *psd_store_stage_raw(struct psd_store *s, uint64_t n)
{
    return stage(s, n, psd_arena_alloc_raw);
}

void psd_store_unstage(struct psd_store *s, void *p, uint64_t n)
{
    psd_arena_free(&s->arena, p, n);
    s->promised_bytes -= psd_arena_bytes(n);
}
