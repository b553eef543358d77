/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators ask of a task as a whole: CONTAINERS, SHUTDOWN, and of the directory: TASKS. INFO, sessions, waits and settings
 * are in files of their own. Failure: without memory for a list RESOURCE_EXHAUSTED.
 */
#include "rpc.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHUTDOWN_RETRY_MS = 100 };

/* Names recorded for a task whose process of now has not said that it has them. */
struct lost {
    uint32_t count;
    char text[PSD_NAMES_HALF];
    struct psd_names names;
};

/* For each peer; only one that is another process than before can have lost any. */
static void find_lost(const struct psd_task *t, struct lost *lost)
{
    bool restarted = false;
    uint64_t cursor = 0;
    void *value = NULL;
    for (uint32_t i = 0; i < t->peer_count; i++) {
        lost[i].names = PSD_NAMES_IN(lost[i].text);
        restarted = restarted || t->peers[i].restarts > 0;
    }
    while (restarted && psi_map_next(&t->names.names, &cursor, NULL, NULL, &value)) {
        const struct psd_name *n = value;
        const struct psd_peer *p = &t->peers[n->owner];
        if (n->sure && n->life != p->life && p->listed) {
            lost[n->owner].count++;
            bool other = strcmp(n->container, PSI_CONTAINER_DEFAULT) != 0;
            psd_names_add(&lost[n->owner].names, "%s%s%s", other ? n->container : "", other ? ": " : "", n->name);
        }
    }
}

void psd_rpc_tasks(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    struct psd_list l;
    struct lost *lost = psi_calloc(t->peer_count, sizeof(*lost));
    if (lost == NULL) {
        psd_list_refuse(t, c, r);
        return;
    }
    find_lost(t, lost);
    psd_list_begin(&l, t, c, PS_OP_TASKS, PS_FLAG_REPLY, r->header.id);
    for (uint32_t i = 0; i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        ps_v1_TaskAnswer a = ps_v1_TaskAnswer_init_zero;
        a.task = p->task;
        a.connected = p->self || p->listed;
        a.heard = p->self || p->heard;
        a.missing_ms = a.connected ? 0 : t->now_ms - p->missing_since_ms;
        a.life = p->life;
        a.pid = p->pid;
        a.restarts = p->restarts;
        a.lost = lost[i].count;
        PSI_IGNORE(PSI_BYTES_SET(a.lost_names, psd_names_text(&lost[i].names)));                      /* fits */
        PSI_IGNORE(PSI_BYTES_SET(a.job, p->job));                                                     /* fits: checked name */
        PSI_IGNORE(PSI_BYTES_SET(a.address, psi_cluster_task_address(&t->cluster, p->job, p->task))); /* likewise */
        PSI_IGNORE(PSI_BYTES_SET(a.host, p->host));                                                   /* cut is fine */
        PSI_IGNORE(PSI_BYTES_SET(a.conflict, psd_peer_conflict(t, p)));                               /* likewise */
        psd_list_add(&l, &ps_v1_TaskAnswer_msg, &a);
    }
    psd_list_end(&l);
    psi_free(lost);
}

/* ---- CONTAINERS ---- */

struct container_row {
    const char *name;
    const struct psd_container *container; /* NULL: the directory knows names in it, but has nothing of it itself */
    uint32_t names;                        /* directory: recorded, of all tasks */
};

static int by_name(const void *a, const void *b)
{
    const struct container_row *x = a;
    const struct container_row *y = b;
    return strcmp(x->name, y->name);
}

static void describe_chief(const struct psd_task *t, const struct psd_chief *chief, ps_v1_ContainerAnswer *a)
{
    const struct psd_record *holder = psd_chief_holder(t, chief);
    a->chief_number = chief->number;
    a->chief_left_ms = holder != NULL ? holder->lease_until_ms - t->now_ms : 0;
    if (holder != NULL || !t->is_directory) {
        PSI_IGNORE(PSI_BYTES_SET(a->chief, chief->text)); /* fits */
    }
}

static void describe_container(const struct psd_task *t, const struct container_row *row, ps_v1_ContainerAnswer *a)
{
    const struct psd_chief *chief = psd_chief_find(&t->chiefs, row->name);
    if (chief != NULL) {
        describe_chief(t, chief, a);
    }
    uint64_t cursor = 0;
    void *value = NULL;
    PSI_IGNORE(PSI_BYTES_SET(a->container, row->name)); /* fits: checked name */
    a->names = row->names;
    a->incarnation = row->container != NULL ? row->container->incarnation : 0;
    while (row->container != NULL && psi_map_next(&row->container->variables, &cursor, NULL, NULL, &value)) {
        const struct psd_variable *v = value;
        if (v->queue != NULL) {
            a->queues++;
            a->bytes += v->queue->bytes;
            continue;
        }
        a->variables++;
        a->initialised += v->initialised;
        a->bytes += psd_variable_memory_bytes(v);
    }
}

/* Containers of names that the directory has recorded and whose owner may have lost them: a reset of all must find them. */
static ps_status recorded_containers(const struct psd_task *t, struct psi_map *out, struct psi_err *err)
{
    uint64_t cursor = 0;
    void *value = NULL;
    ps_status st = PS_OK;
    while (st == PS_OK && psi_map_next(&t->names.in, &cursor, NULL, NULL, &value)) {
        struct psd_names_in *in = value;
        if (psd_container_find(&t->store, in->container) == NULL) {
            st = psi_map_put(out, in->container, strlen(in->container), in, NULL, err);
        }
    }
    return st;
}

static uint32_t container_rows(const struct psd_task *t, const struct psi_map *recorded, struct container_row *rows)
{
    uint32_t count = 0;
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->store.containers, &cursor, NULL, NULL, &value)) {
        const struct psd_container *container = value;
        const struct psd_names_in *in = psd_directory_names_in(&t->names, container->name);
        rows[count++] =
            (struct container_row){.name = container->name, .container = container, .names = in == NULL ? 0 : in->variables};
    }
    cursor = 0;
    while (psi_map_next(recorded, &cursor, NULL, NULL, &value)) {
        const struct psd_names_in *in = value;
        rows[count++] = (struct container_row){.name = in->container, .names = in->variables};
    }
    if (count > 0) {
        qsort(rows, count, sizeof(*rows), by_name);
    }
    return count;
}

void psd_rpc_containers(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    if (psd_peers_refuse(t, c, r)) {
        return;
    }
    struct psi_err err;
    struct psi_map recorded;
    psi_map_init(&recorded, t->store.map_seed);
    ps_status st = recorded_containers(t, &recorded, &err);
    struct container_row *rows = psi_calloc(psi_map_count(&t->store.containers) + psi_map_count(&recorded) + 1, sizeof(*rows));
    if (st != PS_OK || rows == NULL) {
        psd_list_refuse(t, c, r);
        goto end;
    }
    uint32_t count = container_rows(t, &recorded, rows);
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_CONTAINERS, PS_FLAG_REPLY, r->header.id);
    for (uint32_t i = 0; i < count; i++) {
        ps_v1_ContainerAnswer a = ps_v1_ContainerAnswer_init_zero;
        describe_container(t, &rows[i], &a);
        psd_list_add(&l, &ps_v1_ContainerAnswer_msg, &a);
    }
    psd_list_end(&l);
end:
    psi_free(rows);
    psi_map_fini(&recorded);
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
