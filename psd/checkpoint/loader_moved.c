/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values that have moved: they were dealt anew over all tasks, or are of an older checkpoint than the newest, and no checkpoint
 * has them as they live. A task's values then differ from its parts of all checkpoints up to a number. The task lists that number
 * (psd_store.moved). A task that lists a lower number than the others has lost its share of these values. Each task lists such a
 * number for each container as well: a container that a restore of others left alone is still of the newest checkpoint's history,
 * and does not go back with them.
 */
#include "saver.h"
#include "loader.h"

/* psd_store.moved of task p; 0: p is of another job. */
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
        return true; /* a task that is lost may have held all of it, while tasks that live wrote its parts of that checkpoint */
    }
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_loader_held *h = psd_loader_find_held(&t->loader->peers[i], container);
        if (t->peers[i].own_job && h != NULL && h->moved >= number) {
            return true;
        }
    }
    return false;
}

/* The newest checkpoint with a manifest on our disk; 0: there is none. */
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
