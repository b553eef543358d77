/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was dealt anew over all tasks, or is of an older checkpoint than the newest, and is not saved so yet: no task's part of
 * the newest one is what it has. Each task says up to which number that is so (psd_store.moved); one that does not, beside others
 * that do, has lost what it had of it. Each task says such a number of each container: a container that a restore of others left
 * alone is still of the newest checkpoint's history, and is not to go back with them.
 */
#include "saver.h"
#include "loader.h"

/* As psd_loader_moved_most(), of p alone. */
static uint64_t moved_on(const struct psd_task *t, const struct psd_peer *p)
{
    return !p->own_job ? 0 : p->self ? t->store.moved : t->loader->peers[p->index].moved;
}

uint64_t psd_loader_moved_most(const struct psd_task *t)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        uint64_t moved = moved_on(t, &t->peers[i]);
        most = moved > most ? moved : most;
    }
    return most;
}

bool psd_loader_is_moved(const struct psd_task *t, const char *container, uint64_t number)
{
    if (psd_loader_living(t, container) == NULL) {
        return true; /* who is lost may have had all of it, and its parts in that checkpoint may be those of tasks that live */
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_loader_held *h = psd_loader_find_held(&t->loader->peers[i], container);
        if (t->peers[i].own_job && h != NULL && h->moved >= number) {
            return true;
        }
    }
    return false;
}

/* 0: there is none. */
static uint64_t newest(const struct psd_task *t)
{
    return t->saver == NULL || psi_list_empty(&t->saver->known)
               ? 0
               : PSI_CONTAINER_OF(t->saver->known.prev, struct psd_checkpoint, link)->what.number;
}

bool psd_loader_moves(const struct psd_task *t)
{
    const struct psd_loader *s = t->loader;
    bool all = s->reason == PSD_LOAD_ASKED || s->reason == PSD_LOAD_START || psd_loader_strays(s);
    return s->from == PSD_LOADER_FROM_ALL || (all && s->number < newest(t) && psd_loader_have_disks(t));
}

bool psd_loader_is_strayed(const struct psd_task *t)
{
    uint64_t most = psd_loader_moved_most(t);
    bool saved = most == 0 || newest(t) == 0 || newest(t) > most;
    for (uint32_t i = 0; !saved && i < t->peer_count; i++) {
        if (t->peers[i].own_job && moved_on(t, &t->peers[i]) != most) {
            return true;
        }
    }
    return false;
}
