/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CALL: run a row of the program's call table on one of its compute threads (docs/PROTOCOL.md, section 3).
 *
 * Happy path: a waiting request (wait.c) -> the row's check -> memory for input and output, within the task's budget -> effect
 * CALL -> psd_task_call_finished(): the result is kept until the client's ACK -> answered. A client that reconnects joins it.
 * Failure: what is refused before it runs did nothing. Its deadline, ACK, GOODBYE or the end of its session cancels it: the
 * shell still has its memory until it says that it is over. An error after that says that something may have been done, so that
 * no client repeats it.
 */
#include "rpc.h"

#include "common/mem.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 50 };

/* One row by name; UINT32_MAX: there is none, and names says what there is. */
static uint32_t find_row(const struct psd_task *t, const char *name, struct psd_names *names)
{
    const char *at = NULL;
    for (uint32_t i = 0; t->config.call_name != NULL && (at = t->config.call_name(t->config.shell, i)) != NULL; i++) {
        if (strcmp(at, name) == 0) {
            return i;
        }
        psd_names_add(names, "%s", at);
    }
    return UINT32_MAX;
}

static ps_status read_call(struct psd_task *t, const struct psd_request *r, ps_v1_Call *m, uint32_t *out_row, struct psi_err *err)
{
    char name[64];
    char buffer[PSI_ERR_TEXT_MAX / 2];
    struct psd_names names = PSD_NAMES_IN(buffer);
    ps_status st = psi_msg_decode(&ps_v1_Call_msg, m, r->meta, r->header.meta_bytes, err);
    if (st == PS_OK) {
        st = PSI_BYTES_TEXT(m->name, name, sizeof(name));
    }
    if (st != PS_OK) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "CALL at %s: its name is not understood", t->name);
    }
    if (m->in_bytes > PS_CALL_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "call '%s': %u bytes go in, at most %zu", name, m->in_bytes, PS_CALL_BYTES_MAX);
    }
    if (psi_pad8(m->in_bytes) != r->body_bytes) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "call '%s': %u bytes are to go in and %zu have come", name, m->in_bytes,
                        r->body_bytes);
    }
    *out_row = find_row(t, name, &names);
    if (*out_row == UINT32_MAX) {
        return psi_fail(err, PS_NOT_FOUND, "there is no call '%s' at %s; %s%s", name, t->name,
                        names.used > 0 ? "it has " : "it runs no calls", psd_names_text(&names));
    }
    if (t->draining) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_SHUTTING_DOWN, "%s is shutting down", t->name);
    }
    if (t->work_count >= t->config.calls_max) {
        return psi_fail_as(err, PS_RESOURCE_EXHAUSTED, PS_REASON_OVERLOADED, "%s already runs %u calls (calls_max)", t->name,
                           t->work_count);
    }
    char text[PSI_ERR_TEXT_MAX] = "";
    st = t->config.call_check != NULL ? t->config.call_check(t->config.shell, *out_row, r->body, m->in_bytes, text, sizeof(text))
                                      : PS_OK;
    text[sizeof(text) - 1] = '\0';
    return st == PS_OK ? PS_OK : psi_fail(err, st, "call '%s' at %s: %s", name, t->name, text);
}

static void give_back(struct psd_task *t, void *p, uint32_t bytes)
{
    if (p != NULL) {
        psd_store_unstage(&t->store, p, bytes);
    }
}

static void work_free(struct psd_task *t, struct psd_work *k)
{
    psi_list_remove(&k->link);
    t->work_count--;
    give_back(t, k->in, k->in_bytes);
    give_back(t, k->out, PS_CALL_BYTES_MAX);
    psi_free(k);
}

/* Memory, then the effect: from then on it is the shell's. */
static ps_status begin(struct psd_task *t, struct psd_wait *w, const ps_v1_Call *m, uint32_t row, const uint8_t *in,
                       struct psi_err *err)
{
    struct psd_need *need = psd_wait_need(t, w, err);
    if (need == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    struct psd_work *k = psi_calloc(1, sizeof(*k));
    struct psd_effect *e = NULL;
    if (k == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for a call", t->name);
    }
    k->id = ++t->work_next;
    k->row = row;
    psi_list_init(&k->waiters);
    psi_list_push_back(&t->works, &k->link);
    t->work_count++;
    k->out = psd_room_stage(t, PS_CALL_BYTES_MAX);
    k->in = k->out != NULL && m->in_bytes > 0 ? psd_room_stage(t, m->in_bytes) : NULL;
    k->in_bytes = k->in != NULL ? m->in_bytes : 0;
    if (k->out != NULL && k->in_bytes == m->in_bytes) {
        e = psd_effect_new(t, PSD_EFFECT_CALL);
    }
    if (e == NULL) {
        work_free(t, k);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for the %u bytes of a call and %zu of its result", t->name,
                        m->in_bytes, PS_CALL_BYTES_MAX);
    }
    if (k->in != NULL) {
        memcpy(k->in, in, k->in_bytes);
    }
    psd_wait_hang(w, need, &k->waiters);
    w->working_bytes = k->in_bytes + PS_CALL_BYTES_MAX;
    w->deadline_ms = psd_wait_deadline(t, m->timeout_ms);
    e->call = k->id;
    e->call_row = row;
    e->call_in = k->in;
    e->call_in_bytes = k->in_bytes;
    e->call_out = k->out;
    e->call_out_bytes = PS_CALL_BYTES_MAX;
    return PS_OK;
}

static void send_result(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w)
{
    uint64_t bytes = w->out_bytes;
    psd_reply_body(t, c, w->op, w->id, &bytes, sizeof(bytes), w->out, w->out_bytes);
}

/* ---- as a wait ---- */

static void describe_work(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    const char *name = t->config.call_name(t->config.shell, PSI_CONTAINER_OF(w->needs[0].of, struct psd_work, waiters)->row);
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "called: %.100s", name == NULL ? "?" : name)); /* fits */
    PSI_IGNORE(snprintf(out->release, sizeof(out->release), "the call ends"));                       /* fits */
}

static void expire_work(struct psd_task *t, struct psd_wait *w)
{
    PSI_IGNORE(psi_fail(&w->err, PS_DEADLINE_EXCEEDED, "%s: the call was not over in time and is cancelled: outcome unknown",
                        t->name)); /* answered by the caller */
    w->err.applied = PS_OUTCOME_UNKNOWN;
}

static void cancel_work(struct psd_task *t, struct psd_wait *w)
{
    w->working_bytes = 0;
    if (w->need_count == 0 || w->needs[0].wait == NULL || w->needs[0].met) {
        return; /* it did not begin, or is over */
    }
    struct psd_work *k = PSI_CONTAINER_OF(w->needs[0].of, struct psd_work, waiters);
    struct psd_effect *e = k->cancelled ? NULL : psd_effect_new(t, PSD_EFFECT_CALL_CANCEL);
    if (e != NULL) { /* without memory it runs to its end, and nobody hears of it */
        k->cancelled = true;
        e->call = k->id;
    }
}

static const struct psd_wait_kind of_call = {
    .describe = describe_work, .expire = expire_work, .drop = cancel_work, .answer = send_result};

void psd_rpc_call(struct psd_task *t, struct psd_conn *c, const struct psd_request *r)
{
    bool old = false;
    struct psd_wait *w = psd_wait_get(t, c, r, &of_call, &old);
    if (w == NULL || old) {
        return;
    }
    ps_v1_Call m;
    uint32_t row = 0;
    struct psi_err err;
    ps_status st = read_call(t, r, &m, &row, &err);
    if (st == PS_OK) {
        st = begin(t, w, &m, row, r->body, &err);
    }
    if (st != PS_OK) {
        err.applied = PS_NOTHING_APPLIED;
        psd_wait_refused(t, w, &err, st == PS_RESOURCE_EXHAUSTED || st == PS_UNAVAILABLE ? RETRY_MS : 0);
    } else {
        psd_wait_open(t, w);
    }
}

/* ---- the end ---- */

/* The result moves to memory of its size where that is to be had. */
static void keep(struct psd_task *t, struct psd_wait *w, struct psd_work *k, uint32_t bytes)
{
    void *small = bytes > 0 && bytes <= PS_CALL_BYTES_MAX / 2 ? psd_store_stage(&t->store, bytes) : NULL;
    w->out_bytes = bytes;
    if (small != NULL) {
        memcpy(small, k->out, bytes);
        w->out = small;
        w->out_staged = bytes;
    } else if (bytes > 0) {
        w->out = k->out;
        w->out_staged = PS_CALL_BYTES_MAX;
        k->out = NULL;
    }
}

void psd_call_finished(struct psd_task *t, uint64_t call, ps_status st, size_t out_bytes, const char *error)
{
    struct psd_work *k = NULL;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->works) {
        struct psd_work *at = PSI_CONTAINER_OF(it, struct psd_work, link);
        k = at->id == call ? at : k;
    }
    PSI_ASSERT(k != NULL && out_bytes <= PS_CALL_BYTES_MAX);
    struct psd_wait *w = psd_wait_first(&k->waiters);
    if (w != NULL && st == PS_OK) {
        keep(t, w, k, (uint32_t)out_bytes);
    } else if (w != NULL) {
        PSI_IGNORE(psi_fail(&w->err, st, "%s: %s", t->name, error)); /* answered below */
        w->err.applied = PS_MAYBE_PARTLY_APPLIED;                    /* it ran: nobody may repeat it by himself */
    }
    psd_wait_over(t, &k->waiters);
    work_free(t, k);
}

void psd_call_free_all(struct psd_task *t)
{
    struct psi_list *link = NULL;
    while ((link = psi_list_first(&t->works)) != NULL) {
        work_free(t, PSI_CONTAINER_OF(link, struct psd_work, link));
    }
}

void psd_call_check_invariants(const struct psd_task *t)
{
    uint32_t count = 0;
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->works) {
        const struct psd_work *k = PSI_CONTAINER_OF(it, struct psd_work, link);
        PSI_ASSERT(k->out != NULL && (k->in != NULL) == (k->in_bytes > 0));
        count++;
    }
    PSI_ASSERT(count == t->work_count && count <= t->config.calls_max);
}
