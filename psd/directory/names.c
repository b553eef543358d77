/* SPDX-License-Identifier: Apache-2.0 */
/* One map; the protocol that keeps it true is in psd/directory/create.c, reset.c and tasklink.c. */
#include "names.h"

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
    const char *key = NULL;
    size_t len = 0;
    void *value = NULL;
    while (psi_map_next(&d->names, &cursor, &key, &len, &value)) {
        psi_free(value);
    }
    psi_map_fini(&d->names);
}

struct psd_name *psd_directory_find(const struct psd_directory *d, const char *container, const char *name)
{
    char key[KEY_MAX];
    size_t n = key_of(key, container, name);
    return psi_map_find(&d->names, key, n);
}

ps_status psd_directory_record(struct psd_directory *d, const char *container, const char *name,
                               const struct psd_definition *definition, uint32_t owner, struct psd_name **out,
                               struct psi_err *err)
{
    struct psd_name *n = psi_calloc(1, sizeof(*n));
    if (n == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "directory: memory for variable '%s'", name);
    }
    memcpy(n->container, container, strlen(container) + 1);
    memcpy(n->name, name, strlen(name) + 1);
    n->definition = *definition;
    n->owner = owner;
    char key[KEY_MAX];
    size_t bytes = key_of(key, container, name);
    ps_status st = psi_map_put(&d->names, key, bytes, n, NULL, err);
    if (st != PS_OK) {
        psi_free(n);
        return st;
    }
    *out = n;
    return PS_OK;
}

void psd_directory_confirm(struct psd_name *n, uint64_t life)
{
    n->sure = true;
    n->life = life;
    n->asked = 0;
}

void psd_directory_forget(struct psd_directory *d, struct psd_name *n)
{
    char key[KEY_MAX];
    size_t bytes = key_of(key, n->container, n->name);
    PSI_IGNORE(psi_map_remove(&d->names, key, bytes)); /* it is n */
    d->forgotten++;
    psi_free(n);
}

void psd_directory_forget_container(struct psd_directory *d, const char *container)
{
    uint64_t cursor = 0;
    const char *key = NULL;
    size_t len = 0;
    void *value = NULL;
    while (psi_map_next(&d->names, &cursor, &key, &len, &value)) {
        struct psd_name *n = value;
        if (strcmp(n->container, container) == 0) {
            psd_directory_forget(d, n);
        }
    }
}
