/* SPDX-License-Identifier: Apache-2.0 */
/* SHUTDOWN and, at the directory, TASKS: the list of tasks, in slices (listing.c). If a task has restarted, the first slices
 * search all names for variables that the task has lost; later slices list the tasks. No memory: RESOURCE_EXHAUSTED. */
#include "rpc.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHUTDOWN_RETRY_MS = 100 };

/* Variables that a task has lost in a restart: the directory knows their names, but the new process has not listed them. */
struct lost {
    uint64_t life; /* random number of the task's process when the search began; a restart changes it */
    bool listed;   /* the task had sent its list when the search began; without a list no name counts as lost */
    uint32_t count;
    char text[PSD_NAMES_HALF];
    struct psd_names names;
};

struct tasks_at {
    bool searching; /* true: the first slices search all names; false: the later slices list the tasks */
    uint32_t next;  /* index in psd_task.peers of the next task to list */
    struct lost of[];
};

/* Begin to search for lost names. Does not search if no task has restarted, because only a restart loses variables. */
static void search_begin(const struct psd_task *t, struct tasks_at *at, uint64_t *cursor)
{
    at->searching = false;
    *cursor = 0;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        at->of[i] = (struct lost){.life = p->life, .listed = p->listed};
        at->of[i].names = PSD_NAMES_IN(at->of[i].text);
        at->searching = at->searching || p->restarts > 0;
    }
}

/* False if a task has restarted, left or sent its list since the search began: the search must begin again. */
static bool search_holds(const struct psd_task *t, const struct tasks_at *at)
{
    bool holds = true;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        holds = holds && at->of[i].life == t->peers[i].life && at->of[i].listed == t->peers[i].listed;
    }
    return holds;
}

/* Examine the next name, and count it if its variable is lost. The name is noted only if c's peer may read its container. */
static void search_step(const struct psd_task *t, const struct psd_conn *c, struct tasks_at *at, uint64_t *cursor)
{
    void *value = NULL;
    if (psi_map_next(&t->names.names, cursor, NULL, NULL, &value)) {
        const struct psd_name *n = value;
        struct lost *of = &at->of[n->owner];
        if (n->sure && !psi_container_is_session(n->container) && n->life != of->life && of->listed) {
            of->count++;
            bool other = strcmp(n->container, PSI_CONTAINER_DEFAULT) != 0;
            if (psd_rights_read_on(t, c, n->container)) {
                psd_names_add(&of->names, "%s%s%s", other ? n->container : "", other ? ": " : "", n->name);
            }
        }
    } else if (search_holds(t, at)) {
        at->searching = false;
    } else {
        search_begin(t, at, cursor);
    }
}

static void add_task(struct psd_task *t, struct psd_list *l, const struct psd_peer *p, struct lost *lost)
{
    ps_v1_TaskAnswer a = ps_v1_TaskAnswer_init_zero;
    a.task = p->task;
    a.connected = p->listed;
    a.heard = p->heard;
    a.missing_ms = a.connected ? 0 : t->now_ms - p->missing_since_ms;
    a.life = p->life;
    a.pid = p->pid;
    a.restarts = p->restarts;
    a.lost = lost->count;
    PSI_IGNORE(PSI_BYTES_SET(a.lost_names, psd_names_text(&lost->names))); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(a.job, p->job));                              /* fits: checked name */
    PSI_IGNORE(PSI_BYTES_SET(a.address, psd_peer_address(t, p)));          /* fits: checked address */
    PSI_IGNORE(PSI_BYTES_SET(a.host, p->host));                            /* cut is fine */
    PSI_IGNORE(PSI_BYTES_SET(a.conflict, psd_peer_conflict(t, p)));        /* cut is fine */
    psd_list_add(l, &ps_v1_TaskAnswer_msg, &a);
}

static bool step_tasks(struct psd_task *t, struct psd_conn *c, struct psd_list *l)
{
    struct tasks_at *at = c->listing_at;
    if (at->searching) {
        search_step(t, c, at, &c->listing_cursor);
        return true;
    }
    if (at->next == t->peer_count) {
        return false;
    }
    add_task(t, l, &t->peers[at->next], &at->of[at->next]);
    at->next++;
    return true;
}

void psd_rpc_tasks(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    static const struct psd_listing tasks = {.op = PS_OP_TASKS, .flags = PS_FLAG_REPLY, .step = step_tasks};
    struct tasks_at *at = psi_calloc(1, sizeof(*at) + t->peer_count * sizeof(at->of[0]));
    if (at == NULL) {
        psd_list_refuse(t, c, r);
        return;
    }
    search_begin(t, at, &c->listing_cursor);
    c->listing_at = at;
    psd_listing_begin(t, c, &tasks, r->header.id);
}

void psd_rpc_shutdown(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    psd_log(t, PSI_LOG_INFO, "shutdown_asked", PSI_KV("peer", c->text));
    struct psi_err err;
    bool asked = psd_effect(t, PSD_EFFECT_SHUTDOWN, "");
    if (!asked) {
        PSI_IGNORE(psi_fail(&err, PS_RESOURCE_EXHAUSTED, "%s: no memory to shut down", t->name)); /* sent below */
    }
    psd_reply(t, c, PS_OP_SHUTDOWN, 0, r->header.id, 0, asked ? NULL : &err, asked ? 0 : SHUTDOWN_RETRY_MS, NULL, NULL);
}
