/* SPDX-License-Identifier: Apache-2.0 */
/* The chief of each container (chiefs.h), in a map by container. psd/directory/chief.c and psd/rpc/init.c give chiefs numbers. */
#include "chiefs.h"

#include "common/mem.h"

#include <string.h>

const struct psd_chief *psd_chief_find(const struct psi_map *chiefs, const char *container)
{
    return psi_map_find(chiefs, container, strlen(container));
}

bool psd_chief_is_given(const struct psd_chief *chief)
{
    static const uint8_t none[sizeof(chief->session)];
    return memcmp(chief->session, none, sizeof(none)) != 0;
}

uint64_t psd_chief_number(const struct psi_map *chiefs, const char *container)
{
    const struct psd_chief *chief = psd_chief_find(chiefs, container);
    return chief == NULL ? 0 : chief->number;
}

ps_status psd_chief_reserve(struct psi_map *chiefs, const char *container, bool instead, struct psd_chief **out,
                            struct psi_err *err)
{
    struct psd_chief *chief = NULL;
    if (!instead && psi_map_count(chiefs) >= PS_CHIEFS_MAX) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED,
                        "container '%s': %u containers have had a chief here, and there is no room for more", container,
                        PS_CHIEFS_MAX);
    }
    if (psi_map_reserve(chiefs, PS_CONTAINER_BYTES_MAX, NULL) == PS_OK) {
        chief = psi_calloc(1, sizeof(*chief));
    }
    *out = chief;
    return chief != NULL ? PS_OK : psi_fail(err, PS_RESOURCE_EXHAUSTED, "container '%s': memory for its chief", container);
}

void psd_chief_asked(const struct psd_chief *chief, uint64_t now_ms)
{
    ((struct psd_chief *)(uintptr_t)chief)->asked_ms = now_ms; /* the field is volatile, so const records may change it */
}

void psd_chief_note_saved(const struct psd_chief *chief)
{
    if (chief != NULL) {
        ((struct psd_chief *)(uintptr_t)chief)->saved = true; /* volatile */
    }
}

void psd_chief_note_failure(const struct psd_chief *chief)
{
    if (chief != NULL) {
        memcpy(((struct psd_chief *)(uintptr_t)chief)->failed, chief->session, sizeof(chief->failed)); /* volatile */
    }
}

bool psd_chief_has_failed(const struct psd_chief *chief)
{
    return psd_chief_is_given(chief) && memcmp(chief->failed, chief->session, sizeof(chief->failed)) == 0;
}

void psd_chiefs_fini(struct psi_map *chiefs)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(chiefs, &cursor, NULL, NULL, &value)) {
        psi_free(value);
    }
    psi_map_fini(chiefs);
}
