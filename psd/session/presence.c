/* SPDX-License-Identifier: Apache-2.0 */
/* Which tasks of the cluster are up, for requests that wait for them. A task is up when the directory has its list of names
 * (psd_peer.listed). A task of another job than the directory's is also up while a session of its job and task holds a lease. */

#include "wait.h"

#include "common/mem.h"

#include <string.h>

static bool is_up(const struct psd_task *t, const struct psd_presence *p)
{
    const struct psd_peer *peer = psd_peer_find(t, p->job, p->task);
    if (peer != NULL && peer->listed) {
        return true;
    }
    if (peer != NULL && peer->own_job) {
        return false; /* a task of the directory's job must have sent its list of names: only then it can serve variables */
    }
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *r = value;
        if (r->member && r->task == p->task && strcmp(r->job, p->job) == 0) {
            return true;
        }
    }
    return false;
}

struct psd_presence *psd_presence_find(const struct psd_task *t, const char *job, uint32_t task)
{
    char name[PSI_TASK_NAME_MAX];
    PSI_IGNORE(psi_task_name_format(name, sizeof(name), job, task)); /* fits */
    return psi_map_find(&t->presences, name, strlen(name));
}

struct psd_presence *psd_presence_new(struct psd_task *t, const char *job, uint32_t task)
{
    char name[PSI_TASK_NAME_MAX];
    PSI_IGNORE(psi_task_name_format(name, sizeof(name), job, task)); /* fits */
    struct psd_presence *p = psi_calloc(1, sizeof(*p));
    if (p == NULL || psi_map_put(&t->presences, name, strlen(name), p, NULL, NULL) != PS_OK) {
        psi_free(p);
        return NULL;
    }
    psd_store_count(&t->store, PSD_MEMORY_REQUESTS, PSD_PRESENCE_BYTES);
    psi_list_init(&p->waiters);
    memcpy(p->job, job, strlen(job) + 1);
    p->task = task;
    p->up = is_up(t, p);
    return p;
}

void psd_presence_put(struct psd_task *t, struct psd_presence *p)
{
    if (--p->need_count == 0) {
        char name[PSI_TASK_NAME_MAX];
        PSI_IGNORE(psi_task_name_format(name, sizeof(name), p->job, p->task)); /* fits */
        PSI_IGNORE(psi_map_remove(&t->presences, name, strlen(name)));         /* always present */
        psd_store_uncount(&t->store, PSD_MEMORY_REQUESTS, PSD_PRESENCE_BYTES);
        psi_free(p);
    }
}

void psd_presence_look(struct psd_task *t, const char *job, uint32_t task)
{
    struct psd_presence *p = psd_presence_find(t, job, task);
    bool up = p != NULL && is_up(t, p);
    if (p != NULL && up != p->up) {
        p->up = up;
        psd_wait_look(t, &p->waiters); /* may free p */
    }
}

void psd_presences_check_invariants(const struct psd_task *t)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->presences, &cursor, NULL, NULL, &value)) {
        const struct psd_presence *p = value;
        PSI_ASSERT(p->need_count > 0 && p->up == is_up(t, p)); /* otherwise a task came or went without psd_presence_look() */
    }
}
