/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What operators ask of a task as a whole: INFO, CONTAINERS, SHUTDOWN, and of the directory: TASKS. Sessions, waits and settings
 * are in files of their own. Failure: without memory for a list RESOURCE_EXHAUSTED.
 */
#include "rpc.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHUTDOWN_RETRY_MS = 100 };

/* What sessions hold, and which holds most. */
static void describe_held(const struct psd_task *t, ps_v1_InfoAnswer *a)
{
    char most[128];
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *record = value;
        const struct psd_conn *conn = record->conn;
        uint64_t staged = psd_session_staged_bytes(record) + (conn != NULL ? psd_slow_bytes(conn) : 0);
        uint64_t copies = conn != NULL ? conn->copy_bytes : 0;
        a->connected += conn != NULL;
        a->staged_bytes += staged;
        a->copies_bytes += copies;
        if (staged + copies > a->most_bytes) {
            a->most_bytes = staged + copies;
            PSI_IGNORE(PSI_BYTES_SET(a->most, psd_record_text(record, most, sizeof(most)))); /* fits */
        }
    }
    a->records_bytes = t->store.records_bytes;
    a->in_progress = t->progress_count;
}

void psd_rpc_info(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_InfoAnswer a = ps_v1_InfoAnswer_init_zero;
    char buffer[sizeof(a.waiting_for.bytes)];
    struct psd_names missing = PSD_NAMES_IN(buffer);
    for (uint32_t i = 0; t->is_directory && i < t->peer_count; i++) {
        const struct psd_peer *p = &t->peers[i];
        if (p->own_job && !p->self && !p->listed) {
            psd_names_add(&missing, "/job:%s/task:%u", p->job, p->task);
        }
    }
    uint64_t variable_bytes = 0, cursor = 0, handle = 0;
    void *value = NULL;
    while (psi_u64_map_next(&t->store.handles, &cursor, &handle, &value)) {
        variable_bytes += ((const struct psd_variable *)value)->bytes;
    }
    PSI_IGNORE(PSI_BYTES_SET(a.job, t->config.job));                    /* fits: checked name */
    PSI_IGNORE(PSI_BYTES_SET(a.address, t->config.address));            /* fits: checked address */
    PSI_IGNORE(PSI_BYTES_SET(a.version, PS_VERSION));                   /* fits */
    PSI_IGNORE(PSI_BYTES_SET(a.waiting_for, psd_names_text(&missing))); /* fits */
    PSI_IGNORE(PSI_BYTES_SET(a.devices, t->config.devices));            /* fits: checked at start */
    a.task = t->config.task;
    a.uptime_ms = t->now_ms - t->started_ms;
    a.memory_bytes = t->store.arena.used_bytes;
    a.variable_bytes = variable_bytes;
    a.connections = t->conn_count;
    a.sessions = psi_map_count(&t->records);
    a.variables = t->store.variable_count - t->store.queue_count;
    a.pushes_applied = t->count.pushes_applied;
    a.pushes_torn = t->count.pushes_torn;
    a.pushes_refused = t->count.pushes_refused;
    a.nonfinite = t->count.nonfinite;
    a.pulls = t->count.pulls;
    a.bytes_in = t->count.bytes_in;
    a.bytes_out = t->count.bytes_out;
    a.pushes_per_second = t->pushes_per_second;
    a.bytes_per_second = t->bytes_per_second;
    a.life = t->life;
    a.pid = t->config.pid;
    a.budget_bytes = t->config.memory_budget_bytes;
    a.directory = t->is_directory;
    describe_held(t, &a);
    psd_list_one(t, c, PS_OP_INFO, PS_FLAG_REPLY, r->header.id, &ps_v1_InfoAnswer_msg, &a);
}

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
            psd_names_add(&lost[n->owner].names, "%s", n->name);
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

static void describe_container(const struct container_row *row, ps_v1_ContainerAnswer *a)
{
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
    while (st == PS_OK && psi_map_next(&t->names.names, &cursor, NULL, NULL, &value)) {
        struct psd_name *n = value;
        size_t len = strlen(n->container);
        if (psd_container_find(&t->store, n->container) == NULL && psi_map_find(out, n->container, len) == NULL) {
            st = psi_map_put(out, n->container, len, n, NULL, err);
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
        rows[count++] = (struct container_row){.name = container->name, .container = container};
    }
    cursor = 0;
    while (psi_map_next(recorded, &cursor, NULL, NULL, &value)) {
        const struct psd_name *n = value;
        rows[count++] = (struct container_row){.name = n->container};
    }
    qsort(rows, count, sizeof(*rows), by_name);
    cursor = 0;
    while (psi_map_next(&t->names.names, &cursor, NULL, NULL, &value)) {
        const struct psd_name *n = value;
        struct container_row key = {.name = n->container};
        struct container_row *row = bsearch(&key, rows, count, sizeof(*rows), by_name);
        PSI_ASSERT(row != NULL); /* recorded_containers() has found it, or the task has it */
        row->names += !n->definition.queue;
    }
    return count;
}

void psd_rpc_containers(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
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
        describe_container(&rows[i], &a);
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
