/* SPDX-License-Identifier: Apache-2.0 */
/* One map, and one list of resets; the protocol that keeps it true is in psd/directory/create.c, reset.c and tasklink.c. */
#include "mutate.h"

#include "common/mem.h"

#include <string.h>

#define KEY_MAX (PS_CONTAINER_BYTES_MAX + 1 + PS_NAME_BYTES_MAX)

static size_t key_of(char key[KEY_MAX], const char *container, const char *name)
{
    size_t a = strlen(container), b = strlen(name);
    memcpy(key, container, a);
    key[a] = '\0';
    memcpy(key + a + 1, name, b);
    return a + 1 + b;
}

void psd_directory_init(struct psd_directory *d, const uint64_t map_seed[2])
{
    psi_map_init(&d->names, map_seed);
    d->forgotten = 0;
}

void psd_directory_fini(struct psd_directory *d)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&d->names, &cursor, NULL, NULL, &value)) {
        psi_free(value);
    }
    psi_map_fini(&d->names);
}

const struct psd_name *psd_directory_find(const struct psd_directory *d, const char *container, const char *name)
{
    char key[KEY_MAX];
    size_t n = key_of(key, container, name);
    return psi_map_find(&d->names, key, n);
}

ps_status psd_name_reserve(struct psd_directory *d, const char *name, struct psd_name **out, struct psi_err *err)
{
    struct psd_name *n = psi_calloc(1, sizeof(*n));
    if (n == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "directory: memory for variable '%s'", name);
    }
    ps_status st = psi_map_reserve(&d->names, KEY_MAX, err);
    if (st != PS_OK) {
        psi_free(n);
        return st;
    }
    *out = n;
    return PS_OK;
}

void psd_directory_record(struct psd_directory *d, const char *container, const char *name,
                          const struct psd_definition *definition, uint32_t owner, struct psd_name *n)
{
    char key[KEY_MAX];
    size_t bytes = key_of(key, container, name);
    if (n == NULL) {
        n = psi_map_find(&d->names, key, bytes);
    } else {
        memcpy(n->container, container, strlen(container) + 1);
        memcpy(n->name, name, strlen(name) + 1);
        ps_status st = psi_map_put(&d->names, key, bytes, n, NULL, NULL);
        PSI_ASSERT(st == PS_OK); /* reserved */
    }
    n->definition = *definition;
    n->owner = owner;
}

/* Notes are not remembered: who finds a name may write them. */
static struct psd_name *notes_of(const struct psd_name *n)
{
    return (struct psd_name *)(uintptr_t)n;
}

void psd_name_confirm(const struct psd_name *n, uint64_t life)
{
    struct psd_name *notes = notes_of(n);
    notes->sure = true;
    notes->life = life;
    notes->asked = 0;
}

void psd_name_asked(const struct psd_name *n, uint64_t life)
{
    notes_of(n)->asked = life;
}

void psd_name_unsure(const struct psd_name *n, uint64_t life)
{
    notes_of(n)->sure = false;
    notes_of(n)->life = life;
}

void psd_name_in_rounds(const struct psd_name *n, uint8_t rounds)
{
    notes_of(n)->rounds = rounds;
}

void psd_name_by_rounds(const struct psd_name *n, bool by_rounds)
{
    notes_of(n)->by_rounds = by_rounds;
}

void psd_directory_forget(struct psd_directory *d, const char *container, const char *name)
{
    char key[KEY_MAX];
    size_t bytes = key_of(key, container, name);
    struct psd_name *n = psi_map_remove(&d->names, key, bytes);
    PSI_ASSERT(n != NULL);
    d->forgotten++;
    psi_free(n);
}

void psd_directory_forget_container(struct psd_directory *d, const char *container)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&d->names, &cursor, NULL, NULL, &value)) {
        struct psd_name *n = value;
        if (strcmp(n->container, container) == 0) {
            psd_directory_forget(d, container, n->name);
        }
    }
}

/* ---- resets ---- */

struct psd_reset *psd_reset_record(const struct psi_list *resets, const char *container)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, resets) {
        struct psd_reset *r = PSI_CONTAINER_OF(it, struct psd_reset, link);
        if (strcmp(r->container, container) == 0) {
            return r;
        }
    }
    return NULL;
}

struct psd_reset *psd_reset_new(uint32_t peer_count)
{
    struct psd_reset *r = psi_calloc(1, sizeof(*r));
    bool *flags = psi_calloc((size_t)peer_count * 2, sizeof(*flags));
    if (r == NULL || flags == NULL) {
        psi_free(r);
        psi_free(flags);
        return NULL;
    }
    psi_list_init(&r->link);
    psi_list_init(&r->waiters);
    r->outstanding = flags;
    r->owed = flags + peer_count;
    return r;
}

void psd_reset_free(struct psd_reset *r)
{
    psi_list_remove(&r->link);
    psi_free(r->outstanding);
    psi_free(r);
}
