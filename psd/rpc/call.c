/* SPDX-License-Identifier: Apache-2.0 */
/* CALL: a client has a function of this program's call table run on a compute thread (docs/PROTOCOL.md, section 3).
 *
 * Happy path: a CALL becomes a waiting request (wait.c), with memory for input and output from the task's budget. Input that does
 * not fit into the first frame comes in PUT_PARTs (queue_parts.c). When the input is complete and the function's check accepts
 * it, the effect CALL orders the run from the shell (the code around this core, which has the threads). psd_task_call_finished()
 * brings the result, kept until the client's ACK. The answer has its beginning; GET_PARTs read the rest. A function that takes
 * calls early is started with its first bytes (effect CALL_EARLY). A client that reconnects finds its call again; a call with
 * incomplete input begins anew.
 *
 * Failure: a call that is refused before it runs has had no effect. Deadline, ACK, GOODBYE and the end of the session cancel a
 * call; the shell uses its memory until the thread has ended. After a call has run, errors say that it may have had an effect. */
#include "rpc.h"

#include "common/mem.h"
#include "psd/base/times.h"

#include <stdio.h>
#include <string.h>

enum { RETRY_MS = 50 };

/* Find the index of the function with this name in the call table. UINT32_MAX: there is none; *names gets those that exist. */
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
    if (m->in_bytes > PS_CALL_LARGE_BYTES_MAX) {
        return psi_fail(err, PS_INVALID_ARGUMENT, "call '%s': %u bytes go in, at most %zu", name, m->in_bytes,
                        PS_CALL_LARGE_BYTES_MAX);
    }
    const bool part = r->body_bytes > 0 && r->body_bytes < m->in_bytes; /* the rest of the input will come in PUT_PART frames */
    if (psi_pad8(m->in_bytes) != r->body_bytes && !part) {
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
    return PS_OK;
}

static void give_back(struct psd_task *t, void *p, uint32_t bytes)
{
    if (p != NULL) {
        psd_store_unstage(&t->store, p, bytes);
    }
}

static void work_free(struct psd_task *t, struct psd_work *k)
{
    if (k->bringer != NULL) {
        psd_part_end(k->bringer);
    }
    psi_list_remove(&k->link);
    t->work_count--;
    psd_drafts_free(t, k);
    give_back(t, k->in, k->in_bytes);
    give_back(t, k->out, k->out_room);
    psi_free(k);
}

/* Make the psd_work of the CALL request w, with memory for input and output from the task's budget. */
static ps_status begin(struct psd_task *t, const struct psd_conn *c, struct psd_wait *w, const ps_v1_Call *m, uint32_t row,
                       struct psi_err *err)
{
    const uint32_t out_room = m->out_bytes < PS_CALL_BYTES_MAX         ? (uint32_t)PS_CALL_BYTES_MAX
                              : m->out_bytes > PS_CALL_LARGE_BYTES_MAX ? (uint32_t)PS_CALL_LARGE_BYTES_MAX
                                                                       : m->out_bytes;
    const uint64_t needs = psd_arena_bytes(out_room) + (m->in_bytes > 0 ? psd_arena_bytes(m->in_bytes) : 0);
    if (needs > t->config.memory_budget_bytes) {
        return psi_fail_as(err, PS_FAILED_PRECONDITION, PS_REASON_TOO_LARGE,
                           "a call with %u bytes of input and room for %u of output; all of %s has %llu (psd --memory_budget)",
                           m->in_bytes, out_room, t->name, (unsigned long long)t->config.memory_budget_bytes);
    }
    struct psd_work *k = psi_calloc(1, sizeof(*k));
    if (k == NULL) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for a call", t->name);
    }
    k->id = ++t->work_next;
    k->row = row;
    k->out_room = out_room;
    k->who = c->who;
    psi_list_init(&k->waiters);
    psi_list_init(&k->drafts);
    psi_list_push_back(&t->works, &k->link);
    t->work_count++;
    k->out = psd_room_stage(t, out_room);
    k->in = k->out != NULL && m->in_bytes > 0 ? psd_room_stage(t, m->in_bytes) : NULL;
    k->in_bytes = k->in != NULL ? m->in_bytes : 0;
    if (k->out == NULL || k->in_bytes != m->in_bytes) {
        work_free(t, k);
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for the %u bytes of a call and %u of its result", t->name,
                        m->in_bytes, out_room);
    }
    w->work = k;
    w->working_bytes = (uint64_t)k->in_bytes + out_room;
    w->deadline_ms = psd_wait_deadline(t, m->timeout_ms);
    return PS_OK;
}

/* Queue an effect: the order to run the call of w on a compute thread. False: no memory. */
static bool give_to_shell(struct psd_task *t, const struct psd_wait *w, enum psd_effect_kind kind)
{
    const struct psd_work *k = w->work;
    struct psd_effect *e = psd_effect_new(t, kind);
    if (e == NULL) {
        return false;
    }
    e->call = k->id;
    e->call_row = k->row;
    e->call_in = k->in;
    e->call_in_bytes = k->in_bytes;
    e->call_come = k->come;
    e->call_out = k->out;
    e->call_out_bytes = k->out_room;
    e->call_deadline_ms = w->deadline_ms;
    e->call_asks = t->rights != NULL;
    e->call_who = k->who;
    PSI_IGNORE(psd_record_text(w->record, e->text, sizeof(e->text)));
    return true;
}

/* Call when the input of w is complete: checks the input, and orders the run of the call. */
static ps_status start(struct psd_task *t, struct psd_wait *w, struct psi_err *err)
{
    struct psd_work *k = w->work;
    char text[PSI_ERR_TEXT_MAX] = "";
    if (t->draining) {
        return psi_fail_as(err, PS_UNAVAILABLE, PS_REASON_SHUTTING_DOWN, "%s is shutting down", t->name);
    }
    const ps_status st = t->config.call_check != NULL
                             ? t->config.call_check(t->config.shell, k->row, k->in, k->in_bytes, text, sizeof(text))
                             : PS_OK;
    text[sizeof(text) - 1] = '\0';
    if (st != PS_OK) {
        return psi_fail(err, st, "call '%s' at %s: %s", t->config.call_name(t->config.shell, k->row), t->name, text);
    }
    struct psd_need *need = psd_wait_need(t, w, err);
    if (need == NULL) {
        return PS_RESOURCE_EXHAUSTED;
    }
    if (!give_to_shell(t, w, PSD_EFFECT_CALL)) {
        return psi_fail(err, PS_RESOURCE_EXHAUSTED, "%s: no memory for a call", t->name);
    }
    psd_wait_hang(w, need, &k->waiters);
    k->begun = true;
    return PS_OK;
}

static void refuse(struct psd_task *t, struct psd_wait *w, struct psi_err *err)
{
    err->applied = PS_NOTHING_APPLIED;
    psd_wait_refused(t, w, err, err->code == PS_RESOURCE_EXHAUSTED || err->code == PS_UNAVAILABLE ? RETRY_MS : 0);
}

void psd_call_bytes(struct psd_task *t, struct psd_wait *w, const uint8_t *p, uint32_t n)
{
    struct psd_work *k = w->work;
    struct psi_err err;
    if (p != NULL && n > 0) {
        memcpy((uint8_t *)k->in + k->come, p, n);
    }
    k->come += n;
    if (k->come < k->in_bytes) {
        return;
    }
    if (start(t, w, &err) == PS_OK) {
        psd_wait_open(t, w);
    } else {
        refuse(t, w, &err);
    }
}

static void send_result(struct psd_task *t, struct psd_conn *c, const struct psd_wait *w)
{
    uint64_t bytes = w->out_bytes;
    psd_reply_body(t, c, w->op, w->id, &bytes, sizeof(bytes), w->out,
                   w->out_bytes < PS_CONTROL_BODY_MAX ? w->out_bytes : PS_CONTROL_BODY_MAX);
}

static void describe_work(const struct psd_task *t, const struct psd_wait *w, struct psd_wait_text *out)
{
    const char *name = t->config.call_name(t->config.shell, PSI_CONTAINER_OF(w->needs[0].of, struct psd_work, waiters)->row);
    PSI_IGNORE(snprintf(out->what, sizeof(out->what), "called: %.100s", name == NULL ? "?" : name)); /* fits */
    PSI_IGNORE(snprintf(out->release, sizeof(out->release), "the call ends"));                       /* fits */
}

static void expire_work(struct psd_task *t, struct psd_wait *w)
{
    PSI_IGNORE(psi_fail(&w->err, PS_DEADLINE_EXCEEDED, "%s: the call was not over in time and is cancelled: outcome unknown",
                        t->name)); /* sent by the caller */
    w->err.applied = PS_OUTCOME_UNKNOWN;
}

static void cancel_work(struct psd_task *t, struct psd_wait *w)
{
    struct psd_work *k = w->work;
    w->working_bytes = 0;
    w->work = NULL;
    if (k == NULL) {
        return; /* the request was refused before it had a call, or its call has ended */
    }
    if (!k->begun && !k->early) {
        work_free(t, k);
        return;
    }
    if (k->bringer != NULL) {
        psd_part_end(k->bringer);
    }
    struct psd_effect *e = psd_effect_new(t, PSD_EFFECT_CALL_CANCEL);
    if (e != NULL) { /* without memory the call just runs to its end, and its result is dropped */
        k->cancelled = true;
        e->call = k->id;
        psd_publishes_cancel(t, k->id);
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
    ps_status st = w->work == NULL ? read_call(t, r, &m, &row, &err)
                                   : psi_fail(&err, PS_INVALID_ARGUMENT,
                                              "CALL number %llu has begun already; the rest of it comes in PUT_PART",
                                              (unsigned long long)w->id);
    st = st == PS_OK ? begin(t, c, w, &m, row, &err) : st;
    if (st != PS_OK) {
        refuse(t, w, &err);
        return;
    }
    const bool part = r->body_bytes < m.in_bytes;
    psd_call_bytes(t, w, r->body, part ? (uint32_t)r->body_bytes : m.in_bytes);
    if (part && t->config.call_early != NULL && t->config.call_early(t->config.shell, row)) {
        w->work->early = give_to_shell(t, w, PSD_EFFECT_CALL_EARLY);
    }
}

/* Keep the result, the first `bytes` of k->out, in w. If it fills at most half of k->out, w gets a copy, so that k->out can be
 * freed; otherwise, or without memory, w takes k->out over. */
static void keep(struct psd_task *t, struct psd_wait *w, struct psd_work *k, uint32_t bytes)
{
    void *small = bytes > 0 && bytes <= k->out_room / 2 ? psd_store_stage_raw(&t->store, bytes) : NULL;
    w->out_bytes = bytes;
    if (small != NULL) {
        memcpy(small, k->out, bytes);
        w->out = small;
        w->out_staged = bytes;
    } else if (bytes > 0) {
        w->out = k->out;
        w->out_staged = k->out_room;
        k->out = NULL;
    }
}

struct psd_work *psd_call_work(const struct psd_task *t, uint64_t call)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->works) {
        struct psd_work *k = PSI_CONTAINER_OF(it, struct psd_work, link);
        if (k->id == call) {
            return k;
        }
    }
    return NULL;
}

bool psd_calls_drained(const struct psd_task *t)
{
    struct psi_list *it = NULL;
    PSI_LIST_FOREACH(it, &t->works) {
        if (PSI_CONTAINER_OF(it, struct psd_work, link)->begun) {
            return false;
        }
    }
    return true;
}

void psd_call_ran(struct psd_task *t, uint64_t call, uint64_t kernel_ns)
{
    const struct psd_work *k = psd_call_work(t, call);
    const struct psd_wait *w = k != NULL ? psd_wait_first(&k->waiters) : NULL;
    if (w != NULL) {
        psd_times_kernel(w->record->conn, w->id, kernel_ns);
    }
}

void psd_call_finished(struct psd_task *t, uint64_t call, ps_status st, ps_reason reason, size_t out_bytes, const char *error)
{
    struct psd_work *k = psd_call_work(t, call);
    PSI_ASSERT(k != NULL && (k->begun || k->cancelled) && out_bytes <= k->out_room);
    struct psd_wait *w = psd_wait_first(&k->waiters);
    if (w != NULL) {
        w->work = NULL; /* the call has ended, so nothing is left to cancel */
    }
    if (w != NULL && st == PS_OK) {
        keep(t, w, k, (uint32_t)out_bytes);
    } else if (w != NULL) {
        PSI_IGNORE(psi_fail_as(&w->err, st, reason, "%s: %s", t->name, error)); /* answered below */
        /* the call has run and may have had an effect, so clients must not repeat it */
        w->err.applied = PS_MAYBE_PARTLY_APPLIED;
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
        PSI_ASSERT(k->begun ? k->come == k->in_bytes : psi_list_empty(&k->waiters));
        PSI_ASSERT(k->begun || k->come < k->in_bytes || (k->early && k->cancelled));
        count++;
    }
    PSI_ASSERT(count == t->work_count && count <= t->config.calls_max);
}
