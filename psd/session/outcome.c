/* SPDX-License-Identifier: Apache-2.0 */
/* How mutations (pushes and other numbered requests) end other than by their last segment: refused, given up half applied (torn),
 * abandoned, or finished by the last slice of a long update (rpc/moves.c). Also sends kept outcomes again, and handles ABANDON,
 * by which a client gives a number up. Failure: a number that is out of order or outside the window is a GAP: the connection is
 * closed, and the client resumes by the answer to its next HELLO. */

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

void psd_outcome_refuse(struct psd_task *t, struct psd_record *record, uint64_t number, struct psi_err *err)
{
    const struct psd_number *torn = psd_record_find(record, number);
    if (torn != NULL && psd_number_is_torn(torn)) {
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

void psd_outcome_move(struct psd_task *t, struct psd_record *record, const struct psd_number *n, uint64_t count)
{
    struct psd_change c = {.kind = PSD_CHANGE_MOVE, .move = {.record = record, .number = n, .count = count}};
    psd_commit(t, &c);
}

/* True if v, a variable with slots, has memory for its value and slots (the last slot is allocated last). False: v was read from
 * a checkpoint's state file, and has no memory yet, or never gets any, because another task loads its values. */
static bool has_memory(const struct psd_variable *v)
{
    return v->slots[psd_optim_slot_count(&v->optimizer) - 1] != NULL;
}

bool psd_outcome_finish(struct psd_task *t, struct psd_record *record, const struct psd_number *n)
{
    const bool moves = psd_number_moves(n) && has_memory(n->progress->variable);
    while (moves && psd_number_moves(n)) {
        psd_outcome_move(t, record, n, psd_progress_left(n->progress));
    }
    return moves;
}

void psd_outcome_tear(struct psd_task *t, struct psd_record *record, const struct psd_number *n)
{
    if (psd_outcome_finish(t, record, n)) {
        return;
    }
    const bool torn = psd_number_is_torn(n);
    t->count.pushes_torn += torn;
    /* nothing: no value has changed, because the mutation was gathered in memory first, or is a contribution to a round */
    const bool nothing = !torn && (n->progress->staging != NULL || psd_push_contributes(n->progress->kind));
    abandon(t, record, n->number, nothing ? PS_NOTHING_APPLIED : PS_OUTCOME_UNKNOWN);
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
                                  [PSD_SCATTER_UPDATE] = PS_OP_SCATTER,
                                  [PSD_CONTRIBUTE_ROWS] = PS_OP_CONTRIBUTE_ROWS,
                                  [PSD_PUSH_PULL_ROWS] = PS_OP_PUSHPULL_ROWS};
    return psd_push_slot(kind) != 0 ? PS_OP_ASSIGN : ops[kind];
}

/* End p, an unfinished mutation of v: finish it if its whole gradient has come, otherwise refuse it. Then answer its session. */
static void end_push(struct psd_task *t, struct psd_record *record, const struct psd_variable *v, const struct psd_progress *p,
                     struct psi_err *err)
{
    const uint8_t op = psd_push_op(p->kind);
    const struct psd_number *n = psd_record_find(record, p->number);
    if (!psd_outcome_finish(t, record, n)) {
        psd_outcome_refuse_push(t, record, record->conn, op, v->handle, n->number, err);
    } else if (record->conn != NULL) {
        /* unlike other answers to a PUSHPULL, this one has no values: the client will PULL them */
        psd_outcome_send(t, record->conn, op, v->handle, n);
    }
}

/* End the unfinished pushes to v; streams_only: only those that change the value with each segment. */
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
            end_push(t, record, v, p, &err);
        }
    }
}

static void fail_lost(const struct psd_task *t, const struct psd_variable *v, struct psi_err *err)
{
    PSI_IGNORE(psi_fail_as(err, PS_ABORTED, PS_REASON_LOST, "variable '%s' at %s was reset or deleted during the operation",
                           v->name, t->name));
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
                end_push(t, record, v, p, &err);
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

/* Find a session that takes part in v's rounds, and is connected here or was heard within its lease; NULL: none. */
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
