/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a sequence number ends other than by its last segment: its outcome is kept and sent (again), or it is refused, torn or
 * abandoned. Also ABANDON, the request for the latter.
 *
 * Failure: a number out of order, or outside the window, is a GAP: the connection is closed, and the client resumes from what
 * HELLO tells it.
 */

#include "session.h"

#include "psd/rpc/handlers.h"

#include "common/mem.h"
#include "psd/store/rows.h"

#include <string.h>

enum { LOAD_RETRY_MS = 20, DRAIN_RETRY_MS = 1000 };

void psd_outcome_gap(struct psd_task *t, struct psd_conn *c, const char *why)
{
    const struct ps_frame_header *h = &c->link->in.header;
    psd_log(t, PSI_LOG_WARN, "gap", PSI_KV("peer", c->text), PSI_KV("number", h->id), PSI_KV("offset", h->offset),
            PSI_KV("msg", why));
    psd_conn_fault(t, c, PS_FAILED_PRECONDITION, PS_REASON_GAP, why);
}

void psd_outcome_send(struct psd_task *t, struct psd_conn *c, uint8_t op, uint32_t handle, const struct psd_number *n)
{
    struct ps_reply_meta m = {.position = n->position, .version = n->version};
    if (n->state == PS_NUMBER_APPLIED) {
        m.result_bytes = n->result_bytes;
        psd_reply(t, c, op, PS_FLAG_SEQ, n->number, handle, NULL, 0, &m, n->result);
        return;
    }
    struct psi_err err = {.code = PS_ABORTED, .applied = (ps_applied)n->applied, .text = "abandoned"};
    uint32_t retry = 0;
    if (n->state == PS_NUMBER_REFUSED) {
        PSI_IGNORE(psi_fail_as(&err, (ps_status)n->status, (ps_reason)n->reason, "%s",
                               n->text == NULL ? "refused" : n->text)); /* sent below */
        err.applied = (ps_applied)n->applied;
        retry = n->status == PS_RESOURCE_EXHAUSTED ? LOAD_RETRY_MS : n->status == PS_UNAVAILABLE ? DRAIN_RETRY_MS : 0;
    }
    psd_reply(t, c, op, PS_FLAG_SEQ, n->number, handle, &err, retry, &m, NULL);
}

/* True if n is unfinished and part of it has been applied. */
static bool is_torn(const struct psd_number *n)
{
    return n != NULL && n->progress != NULL && psd_progress_streams(n->progress) && n->offset > 0;
}

void psd_outcome_refuse(struct psd_task *t, struct psd_record *record, uint64_t number, struct psi_err *err)
{
    const struct psd_number *torn = psd_record_find(record, number);
    if (is_torn(torn)) {
        if (psd_push_is_rows(torn->progress->kind)) {
            psd_rows_say_partly(torn, err);
        }
        err->applied = PS_MAYBE_PARTLY_APPLIED;
        t->count.pushes_torn++;
    }
    struct psd_change c = {.kind = PSD_CHANGE_REFUSE,
                           .end = {.record = record,
                                   .number = number,
                                   .status = err->code,
                                   .reason = err->reason,
                                   .applied = err->applied,
                                   /* without memory the outcome has no text */
                                   .text = psi_strndup(err->text, strlen(err->text))}};
    psd_commit(t, &c);
}

/* ---- refused, torn, abandoned ---- */

void psd_outcome_refuse_push(struct psd_task *t, struct psd_record *record, struct psd_conn *c, uint8_t op, uint32_t handle,
                             uint64_t number, struct psi_err *err)
{
    psd_outcome_refuse(t, record, number, err);
    t->count.pushes_refused++;
    if (c != NULL) {
        psd_outcome_send(t, c, op, handle, psd_record_find(record, number));
    }
}

static void abandon(struct psd_task *t, struct psd_record *record, uint64_t number, ps_applied applied)
{
    struct psd_change c = {.kind = PSD_CHANGE_ABANDON, .end = {.record = record, .number = number, .applied = applied}};
    psd_commit(t, &c);
}

void psd_outcome_tear(struct psd_task *t, struct psd_record *record, const struct psd_number *n)
{
    t->count.pushes_torn += is_torn(n);
    bool staged = n->progress->staging != NULL || n->progress->kind == PSD_CONTRIBUTE; /* nothing was applied to a value */
    abandon(t, record, n->number, staged ? PS_NOTHING_APPLIED : PS_OUTCOME_UNKNOWN);
}

void psd_outcome_abandon(struct psd_task *t, struct psd_record *record, uint64_t number)
{
    abandon(t, record, number, PS_OUTCOME_UNKNOWN);
}

uint8_t psd_push_op(uint8_t kind)
{
    static const uint8_t ops[] = {[PSD_PUSH] = PS_OP_PUSH,
                                  [PSD_PUSH_PULL] = PS_OP_PUSHPULL,
                                  [PSD_ASSIGN] = PS_OP_ASSIGN,
                                  [PSD_ADD] = PS_OP_ADD,
                                  [PSD_CONTRIBUTE] = PS_OP_CONTRIBUTE,
                                  [PSD_PUSH_ROWS] = PS_OP_PUSH_ROWS,
                                  [PSD_SCATTER_ADD] = PS_OP_SCATTER,
                                  [PSD_SCATTER_SUB] = PS_OP_SCATTER,
                                  [PSD_SCATTER_UPDATE] = PS_OP_SCATTER};
    return psd_push_slot(kind) != 0 ? PS_OP_ASSIGN : ops[kind];
}

/* Refuse the pushes in progress to v; streams_only: only those that change the value while they come. */
static void abort_pushes(struct psd_task *t, const struct psd_variable *v, bool streams_only, const struct psi_err *why)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (v->refs > 1 + v->cut_refs && psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        struct psd_record *record = value;
        struct psi_list *it = NULL, *tmp = NULL;
        PSI_LIST_FOREACH_SAFE(it, tmp, &record->progress) {
            const struct psd_progress *p = PSI_CONTAINER_OF(it, struct psd_progress, link);
            if (p->variable != v || (streams_only && !psd_push_streams(p->kind, v))) {
                continue;
            }
            struct psi_err err = *why;
            psd_outcome_refuse_push(t, record, record->conn, psd_push_op(p->kind), v->handle, p->number, &err);
        }
    }
}

static void fail_lost(const struct psd_task *t, const struct psd_variable *v, struct psi_err *err)
{
    PSI_IGNORE(psi_fail_as(err, PS_ABORTED, PS_REASON_LOST, "variable '%s' at %s was reset or deleted during the operation",
                           v->name, t->name)); /* kept and sent by the caller */
}

void psd_outcome_abort_variable(struct psd_task *t, const struct psd_variable *v)
{
    struct psi_err err;
    fail_lost(t, v, &err);
    abort_pushes(t, v, false, &err);
}

void psd_outcome_abort_container(struct psd_task *t, const struct psd_container *in)
{
    uint64_t cursor = 0;
    void *value = NULL;
    while (t->progress_count > 0 && psi_map_next(&t->records, &cursor, NULL, NULL, &value)) {
        struct psd_record *record = value;
        struct psi_list *it = NULL, *tmp = NULL;
        PSI_LIST_FOREACH_SAFE(it, tmp, &record->progress) {
            const struct psd_progress *p = PSI_CONTAINER_OF(it, struct psd_progress, link);
            const struct psd_variable *v = p->variable;
            if (v->container == in) {
                struct psi_err err;
                fail_lost(t, v, &err);
                psd_outcome_refuse_push(t, record, record->conn, psd_push_op(p->kind), v->handle, p->number, &err);
            }
        }
    }
}

ps_status psd_fail_in_rounds(const struct psd_task *t, const struct psd_variable *v, struct psi_err *err)
{
    return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_IN_ROUNDS,
                       "IN_ROUNDS: variable '%s' at %s is in rounds: only what their members contribute changes it; take part "
                       "(--sync, ps_session_sync), or have its chief end them",
                       v->name, t->name);
}

/* A session of a member of v's rounds that is connected here or holds a lease; NULL: nobody trains v. */
static const struct psd_record *trainer_of(const struct psd_task *t, const struct psd_variable *v)
{
    const struct psd_rounds *g = psd_variable_in_group(v) ? v->container->rounds : NULL;
    struct psi_list *it = NULL;
    if (g == NULL || g->options.mode != PSD_SYNC_ROUNDS) {
        return NULL;
    }
    PSI_LIST_FOREACH(it, &g->members) {
        const struct psd_member *m = PSI_CONTAINER_OF(it, struct psd_member, link);
        const struct psd_record *r = psi_map_find(&t->records, m->session, sizeof(m->session));
        if (r != NULL && !r->away) {
            return r;
        }
    }
    return NULL;
}

ps_status psd_round_check(const struct psd_task *t, const struct psd_variable *v, struct psi_err *err)
{
    const struct psd_record *trainer = trainer_of(t, v);
    char who[96];
    if (trainer != NULL) {
        return psi_fail_as(
            err, PS_FAILED_PRECONDITION, PS_REASON_IN_ROUNDS,
            "IN_ROUNDS: variable '%s' at %s is in rounds and %s trains it: others would get a model of two times; stop "
            "the training first (psctl stop)",
            v->name, t->name, psd_record_text(trainer, who, sizeof(who)));
    }
    return psd_variable_is_built(v)
               ? psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_IN_ROUNDS,
                             "variable '%s' at %s: its round is being closed; what changes its value may come when it is",
                             v->name, t->name)
               : PS_OK;
}

void psd_outcome_abort_pushes(struct psd_task *t, const struct psd_variable *v)
{
    struct psi_err err;
    PSI_IGNORE(psd_fail_in_rounds(t, v, &err)); /* kept and sent below */
    abort_pushes(t, v, true, &err);
}

/* ---- mutations without a body ---- */

bool psd_outcome_may_begin(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    const struct psd_number *n = psd_record_find(c->record, r->header.id);
    if (n != NULL && n->state != PS_NUMBER_IN_PROGRESS) {
        psd_outcome_send(t, c, r->header.op, r->header.handle, n);
        return false;
    }
    if (n != NULL || r->header.id <= c->last_first || !psd_record_admits(c->record, r->header.id)) {
        psd_outcome_gap(t, c, "GAP: a number out of order, or outside the window");
        return false;
    }
    c->last_first = r->header.id;
    return true;
}

void psd_rpc_abandon(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    const struct psd_number *n = psd_record_find(c->record, r->header.id);
    if (n == NULL && !psd_record_admits(c->record, r->header.id)) {
        psd_outcome_gap(t, c, "GAP: ABANDON of a number outside the window");
        return;
    }
    if (n == NULL) {
        psd_outcome_abandon(t, c->record, r->header.id);
        n = psd_record_find(c->record, r->header.id);
    } else if (n->state == PS_NUMBER_IN_PROGRESS) {
        psd_outcome_tear(t, c->record, n);
    }
    struct ps_reply_meta m = {.position = n->position, .version = n->version, .result_bytes = 1};
    psd_reply(t, c, PS_OP_ABANDON, PS_FLAG_SEQ, r->header.id, 0, NULL, 0, &m, &n->state);
}
