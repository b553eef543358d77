/* SPDX-License-Identifier: Apache-2.0 */
/* SESSIONS lists client sessions, WAITS their waiting requests; STOP tells sessions to stop.
 *
 * Happy path: all sessions, or all waiting requests, are gathered and sorted, and each becomes a message of the list. For a
 * request the message says in words what is missing, and what would end the wait, as far as this task knows (only the directory
 * knows which chiefs are alive). Names that do not fit into the text are counted. Failure: no memory. */
#include "rpc.h"

#include "common/mem.h"
#include "common/name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WAITS_LISTED_MAX = 4096 /* most waits in one list, because a longer one would delay all other connections */
};

static int by_job(const void *a, const void *b)
{
    const struct psd_record *x = *(const struct psd_record *const *)a;
    const struct psd_record *y = *(const struct psd_record *const *)b;
    int order = strcmp(x->job, y->job);
    if (order == 0) {
        order = x->task < y->task ? -1 : x->task > y->task;
    }
    return order != 0 ? order : memcmp(x->session, y->session, sizeof(x->session));
}

static uint32_t waits_of(const struct psd_record *record)
{
    uint32_t count = 0;
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_u64_map_next(&record->waits, &cursor, NULL, &value)) {
        count += ((const struct psd_wait *)value)->stage != PSD_WAIT_DONE;
    }
    return count;
}

void psd_rpc_sessions(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    uint32_t count = 0;
    const struct psd_record **all = psi_calloc((size_t)psi_map_count(&t->records) + 1, sizeof(const struct psd_record *));
    if (all == NULL) {
        psd_list_refuse(t, c, r);
        return;
    }
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        all[count++] = value;
    }
    qsort(all, count, sizeof(const struct psd_record *), by_job);
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_SESSIONS, PS_FLAG_REPLY, r->header.id);
    for (uint32_t i = 0; i < count; i++) {
        const struct psd_record *record = all[i];
        const struct psd_conn *conn = record->conn;
        ps_v1_SessionAnswer a = ps_v1_SessionAnswer_init_zero;
        a.session.size = sizeof(a.session.bytes);
        memcpy(a.session.bytes, record->session, sizeof(a.session.bytes));
        PSI_IGNORE(PSI_BYTES_SET(a.job, record->job));                  /* fits, as in HELLO */
        PSI_IGNORE(PSI_BYTES_SET(a.host, record->host));                /* fits, as in HELLO */
        PSI_IGNORE(PSI_BYTES_SET(a.program, record->program));          /* fits, as in HELLO */
        PSI_IGNORE(PSI_BYTES_SET(a.rival, psd_claim_rival(t, record))); /* fits: both hold 95 bytes */
        if (t->rights != NULL) {
            PSI_IGNORE(PSI_BYTES_SET(a.who, record->who));                             /* fits: both hold 133 bytes */
            PSI_IGNORE(PSI_BYTES_SET(a.key_id, conn != NULL ? conn->who.key_id : "")); /* fits: both hold 8 bytes */
        }
        PSI_IGNORE(PSI_BYTES_SET(a.said, record->said)); /* fits, as in BEAT */
        a.task = record->task;
        a.pid = record->pid;
        a.connected = conn != NULL;
        a.heard_ms = t->now_ms - (conn != NULL ? conn->heard_ms : record->heard_ms);
        a.age_ms = t->now_ms - record->begun_ms;
        a.global_step = record->step_count == 0 ? 0 : record->steps[record->step_count - 1].step + 1;
        a.steps_per_second = conn == NULL ? 0 : psd_record_steps_per_second(record, t->now_ms, 2 * (uint64_t)t->config.beat_ms);
        a.waits = waits_of(record);
        a.in_progress = record->progress_count;
        a.stopping = record->stopping;
        a.held_bytes = psd_session_staged_bytes(record) + (conn != NULL ? conn->copy_bytes + psd_slow_bytes(conn) : 0);
        psd_list_add(&l, &ps_v1_SessionAnswer_msg, &a);
    }
    psd_list_end(&l);
    psi_free(all);
}

void psd_rpc_stop(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    ps_v1_StopAnswer a = ps_v1_StopAnswer_init_zero;
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        struct psd_record *record = value;
        record->stopping = true; /* the answer to the session's next BEAT will tell it to stop */
        a.sessions += record->conn != NULL || record->lease_until_ms > t->now_ms;
    }
    psd_log(t, PSI_LOG_INFO, "stop_asked", PSI_KV("peer", c->text), PSI_KV("sessions", a.sessions));
    psd_list_one(t, c, PS_OP_STOP, PS_FLAG_REPLY, r->header.id, &ps_v1_StopAnswer_msg, &a);
}

/* True if c's peer may be told what w waits for: it may read all containers that the description would name. */
static bool is_told(const struct psd_task *t, const struct psd_conn *c, const struct psd_wait *w)
{
    bool told = t->rights == NULL || psd_rights_read_on(t, c, w->record->container);
    for (uint32_t i = 0; told && i < w->create_count; i++) {
        told = psd_rights_read_on(t, c, w->creates[i].container);
    }
    for (uint32_t i = 0; told && w->op == PS_OP_WAIT && i < w->need_count; i++) {
        struct psi_list *of = w->needs[i].of;
        const struct psd_variable *v = of == NULL ? NULL : PSI_CONTAINER_OF(of, struct psd_variable, waiters);
        told = v == NULL || psd_rights_read_on(t, c, v->container->name);
    }
    return told;
}

static void tell(const struct psd_task *t, const struct psd_conn *c, const struct psd_wait *w, ps_v1_WaitAnswer *a)
{
    const struct psd_record *record = w->record;
    a->session.size = sizeof(a->session.bytes);
    memcpy(a->session.bytes, record->session, sizeof(a->session.bytes));
    PSI_IGNORE(PSI_BYTES_SET(a->job, record->job));         /* fits, as in HELLO */
    PSI_IGNORE(PSI_BYTES_SET(a->host, record->host));       /* fits, as in HELLO */
    PSI_IGNORE(PSI_BYTES_SET(a->program, record->program)); /* fits, as in HELLO */
    a->task = record->task;
    a->pid = record->pid;
    a->op = w->op;
    a->since_ms = t->now_ms - w->begun_ms;
    a->left_ms = w->deadline_ms == 0 ? 0 : w->deadline_ms > t->now_ms ? w->deadline_ms - t->now_ms : 1;
    struct psd_wait_text text = {.what = "its list has come in part", .release = "the rest of its list comes"};
    if (!is_told(t, c, w)) {
        text = (struct psd_wait_text){.what = "something in a container that you may not read", .release = ""};
    } else if (w->stage == PSD_WAIT_OPEN) {
        w->kind->describe(t, w, &text);
    }
    PSI_IGNORE(PSI_BYTES_SET(a->what, text.what));       /* cut is fine */
    PSI_IGNORE(PSI_BYTES_SET(a->release, text.release)); /* cut is fine */
}

static int by_age(const void *a, const void *b)
{
    const struct psd_wait *x = *(const struct psd_wait *const *)a;
    const struct psd_wait *y = *(const struct psd_wait *const *)b;
    if (x->begun_ms != y->begun_ms) {
        return x->begun_ms < y->begun_ms ? -1 : 1;
    }
    int order = memcmp(x->record->session, y->record->session, sizeof(x->record->session));
    return order != 0 ? order : x->id < y->id ? -1 : x->id > y->id;
}

/* Count the waits that are not answered, and store them in `all` unless it is NULL. */
static uint32_t open_waits(const struct psd_task *t, const struct psd_wait **all)
{
    uint32_t count = 0;
    uint64_t cursor = 0;
    void *value = NULL;
    while (psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        const struct psd_record *record = value;
        uint64_t inner = 0;
        void *item = NULL;
        while (psi_u64_map_next(&record->waits, &inner, NULL, &item)) {
            const struct psd_wait *w = item;
            if (w->stage == PSD_WAIT_DONE) {
                continue; /* answered, and kept until the client confirms it (ACK) */
            }
            if (all != NULL) {
                all[count] = w;
            }
            count++;
        }
    }
    return count;
}

void psd_rpc_waits(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    uint32_t count = open_waits(t, NULL);
    const struct psd_wait **all = psi_calloc((size_t)count + 1, sizeof(const struct psd_wait *));
    if (all == NULL) {
        psd_list_refuse(t, c, r);
        return;
    }
    PSI_IGNORE(open_waits(t, all)); /* returns the count */
    qsort(all, count, sizeof(const struct psd_wait *), by_age);
    count = count < WAITS_LISTED_MAX ? count : WAITS_LISTED_MAX;
    struct psd_list l;
    psd_list_begin(&l, t, c, PS_OP_WAITS, PS_FLAG_REPLY, r->header.id);
    for (uint32_t i = 0; i < count; i++) {
        ps_v1_WaitAnswer a = ps_v1_WaitAnswer_init_zero;
        tell(t, c, all[i], &a);
        psd_list_add(&l, &ps_v1_WaitAnswer_msg, &a);
    }
    psd_list_end(&l);
    psi_free(all);
}
