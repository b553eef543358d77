/* SPDX-License-Identifier: Apache-2.0 */
/* Look-ups: which checkpoints the directory has a manifest of, what tasks have of them, and what was found to be bad. Failure:
 * none. */
#include "saver.h"

#include <stdio.h>

struct psd_checkpoint *psd_saver_known(const struct psd_task *t, uint64_t number)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->saver->known) {
        struct psd_checkpoint *c = PSI_CONTAINER_OF(it, struct psd_checkpoint, link);
        if (c->what.number == number) {
            return c;
        }
    }
    return NULL;
}

struct psd_saver_listed *psd_saver_listed_of(const struct psd_saver_peer *of, uint64_t number)
{
    for (uint32_t i = 0; i < of->listed_count; i++) {
        if (of->listed[i].number == number) {
            return &of->listed[i];
        }
    }
    return NULL;
}

bool psd_saver_has(const struct psd_task *t, const struct psd_peer *p, uint64_t number)
{
    const struct psd_shard *shard = p->self ? psd_shards_find(t, number) : NULL;
    return p->self ? shard != NULL && !shard->dropped : psd_saver_listed_of(&t->saver->peers[p->index], number) != NULL;
}

void psd_saver_look_again(struct psd_task *t)
{
    struct psi_list *it = NULL;
    t->refused = NULL;
    if (t->saver != NULL) {
        PSI_LIST_FOREACH(it, &t->saver->known) {
            PSI_CONTAINER_OF(it, struct psd_checkpoint, link)->bad[0] = '\0';
        }
    }
}

void psd_saver_spoil(struct psd_checkpoint *c, const struct psi_err *why)
{
    if (c != NULL && c->bad[0] == '\0') {
        PSI_IGNORE(snprintf(c->bad, sizeof(c->bad), "%s", why->text)); /* cut is fine */
    }
}
